"""Pilots, learned gates, calibration: on planted data whose right answer is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from omniembed.errors import InputError, ModelError
from omniembed.experts.pilots import Pilots
from omniembed.models.arrays import GateArrays
from omniembed.router import GateSettings, decide, read_settings
from omniembed.router.alternatives import (
    MAXIMUM,
    MEAN,
    DatasetGate,
    Gate,
    PilotGate,
    StaticGate,
    oracle,
)
from omniembed.router.calibrate import Platt, fit_platt
from omniembed.router.candidates import Lessons, learned_gates, pilot_gates
from omniembed.router.decisions import CalibratedGate, calibrate, outcome
from omniembed.router.learned import LinearGate, fit_logistic, fit_ridge
from omniembed.router.library import build_pilots, unit, winners
from omniembed.router.noise import foreign_queries, foreign_words, random_strings
from omniembed.router.table import UtilityTable, join

WIDTH, ENCODERS = 16, ("base", "red", "blue")


def table(name: str, helper: int, seed: int, count: int = 120) -> UtilityTable:
    """Queries around one point, where one expert gains and the other loses."""
    random = np.random.default_rng(seed)
    point = np.random.default_rng(helper).normal(size=WIDTH)
    states = unit((point + 0.6 * random.normal(size=(count, WIDTH))).astype(np.float32))
    ndcg = np.full((3, count), 0.5, np.float32)
    ndcg[helper] += 0.2
    ndcg[3 - helper] -= 0.2
    texts = tuple(f"{name} query {row}" for row in range(count))
    return UtilityTable(name, ENCODERS, texts, states, ndcg)


@pytest.fixture(scope="module")
def lessons() -> Lessons:
    random = np.random.default_rng(9)
    point = np.random.default_rng(77).normal(size=WIDTH)
    states = unit((point + 0.5 * random.normal(size=(100, WIDTH))).astype(np.float32))
    noise = UtilityTable("noise", ENCODERS, ("x",) * 100, states, np.zeros((3, 100), np.float32))
    return Lessons.of([table("a/gate", 1, 1), table("b/gate", 2, 2)], [noise])


def test_ties_have_no_winner_and_the_base_can_win() -> None:
    ndcg = np.array([[0.9, 0.2, 0.5, 0.1], [0.1, 0.7, 0.5, 0.6], [0.2, 0.1, 0.1, 0.6]], np.float32)
    own = UtilityTable("t", ENCODERS, ("",) * 4, np.eye(4, dtype=np.float32), ndcg)
    assert winners(own).tolist() == [0, 1, -1, -1]
    assert oracle(own).tolist() == [0, 1, 0, 1]


def test_a_pilot_stands_for_one_set_and_its_winner(lessons: Lessons) -> None:
    pilots = build_pilots(lessons.tables)
    assert pilots["red"].datasets == ("a",)
    assert pilots["blue"].datasets == ("b",)
    assert pilots["red"].examples[0] in lessons.tables[0].texts
    mean = unit(lessons.tables[0].states.mean(axis=0, keepdims=True))
    assert np.allclose(pilots["red"].vectors, mean, atol=1e-6)


def test_an_expert_that_wins_nowhere_has_no_pilot() -> None:
    assert len(build_pilots([table("a/gate", 1, 1)])["blue"].vectors) == 0


def test_every_gate_finds_the_planted_expert(lessons: Lessons) -> None:
    tests = [table("a/test", 1, 11), table("b/test", 2, 12)]
    gates: list[Gate] = [*pilot_gates(lessons), *learned_gates(lessons)]
    gates.append(DatasetGate.fit(lessons.tables, lessons.center))
    for gate in gates:
        right = [
            (gate.score(one.states).argmax(axis=1) == row).mean() for row, one in enumerate(tests)
        ]
        assert min(right) > 0.9, gate.name
    static = StaticGate("always red", 0, 2)
    assert (static.score(tests[1].states).argmax(axis=1) == 0).all()


def test_mean_and_maximum_are_what_they_are_called(lessons: Lessons) -> None:
    random = np.random.default_rng(0)
    vectors = unit(random.normal(size=(5, WIDTH)).astype(np.float32))
    pilots = {"red": Pilots(vectors[:3]), "blue": Pilots(vectors[3:])}
    states = unit(random.normal(size=(7, WIDTH)).astype(np.float32))
    cosine, nowhere = states @ vectors.T, np.zeros(WIDTH, np.float32)
    mean = PilotGate("mean", nowhere, pilots, MEAN).score(states)
    most = PilotGate("max", nowhere, pilots, MAXIMUM).score(states)
    assert np.allclose(mean[:, 0], cosine[:, :3].mean(axis=1), atol=1e-3)
    assert np.allclose(most[:, 1], cosine[:, 3:].max(axis=1), atol=1e-2)


def test_a_threshold_parts_noise_from_queries(lessons: Lessons) -> None:
    dev = [table("a/dev", 1, 21), table("b/dev", 2, 22)]
    joined, weights = lessons.joined()
    learned = fit_logistic(joined, lessons.center, penalty=3.0, weights=weights)
    fitted = calibrate(learned, dev)
    loudest = float(np.quantile(fitted.choose(lessons.noise[0]).confidence, 0.95))
    fitted = replace(fitted, threshold=loudest)
    test = table("a/test", 1, 31)
    choice = fitted.choose(test)
    assert (choice.encoder == 1).mean() > 0.9
    assert ((choice.confidence >= 0) & (choice.confidence <= 1)).all()
    found = outcome(test, choice.encoder)
    assert found.gain == pytest.approx(0.2 * found.helped - 0.2 * found.harmed, abs=1e-6)
    soft = replace(fitted, ramp=2.0).choose(test)
    assert ((soft.weight > 0) & (soft.weight < 1)).any()
    weak = outcome(test, soft.encoder, soft.weight)
    assert abs(weak.gain) < abs(found.gain)


def ridge(lessons: Lessons) -> LinearGate:
    return fit_ridge(lessons.joined()[0], lessons.center)


@pytest.mark.parametrize("ramp", [1e-6, 0.3])
def test_a_linear_gate_is_the_same_in_the_graphs_terms(lessons: Lessons, ramp: float) -> None:
    gate = ridge(lessons)
    fitted = calibrate(gate, [table("a/dev", 1, 21), table("b/dev", 2, 22)], threshold=0.6)
    length = np.linalg.norm(gate.weights, axis=1, keepdims=True)
    experts = np.zeros((3, 3), np.float32)
    experts[0] = 0, -1e4, 1
    slopes = np.array([curve.slope for curve in fitted.curves])
    experts[1:, 0] = slopes * length[:, 0]
    experts[1:, 1] = slopes * gate.bias + [curve.offset for curve in fitted.curves]
    experts[1:, 2] = 1
    arrays = GateArrays(
        gate.weights / length,
        np.array([1, 2]),
        lessons.center,
        experts,
        np.array([0.05, 0.6, ramp], np.float32),
    )
    queries = join([table("a/x", 1, 41), table("b/x", 2, 42)])
    choice = replace(fitted, ramp=ramp).choose(queries)
    decision = decide(queries.states, arrays)
    assert np.allclose(decision.confidence.max(axis=1), choice.confidence, atol=1e-4)
    assert (decision.experts[:, 0] == choice.encoder).all()
    assert np.allclose(decision.weights[:, 0], choice.weight, atol=1e-2)


def test_platt_recovers_a_known_curve() -> None:
    random = np.random.default_rng(0)
    scores = random.normal(size=20_000).astype(np.float32)
    true = Platt(1.5, -0.4)
    won = random.random(20_000) < true.apply(scores)
    found = fit_platt(scores, won)
    assert found.slope == pytest.approx(1.5, abs=0.1)
    assert found.offset == pytest.approx(-0.4, abs=0.05)
    assert fit_platt(-scores, won).slope == 0


def test_below_the_threshold_the_base_serves(lessons: Lessons) -> None:
    gate = ridge(lessons)
    query = table("a/x", 1, 51)
    curves = (Platt(1, 0), Platt(1, 0))
    assert (CalibratedGate(gate, curves, 1.1).choose(query).encoder == 0).all()
    assert (CalibratedGate(gate, curves, 0.0).choose(query).encoder > 0).all()


def test_an_expert_that_breaks_its_word_gets_a_lower_curve(lessons: Lessons) -> None:
    gate = ridge(lessons)
    kept, broken = table("a/dev", 1, 61), table("b/dev", 1, 62)
    broken = replace(broken, ndcg=broken.ndcg[[1, 0, 2]])  # what it gained, it now loses
    fitted = calibrate(gate, [kept, table("c/dev", 2, 63)])
    lowered = calibrate(gate, [kept, broken, table("c/dev", 2, 63)])
    states = kept.states
    assert (lowered.probabilities(states)[:, 0] < fitted.probabilities(states)[:, 0]).mean() > 0.9
    shared = calibrate(gate, [kept, table("c/dev", 2, 63)], common=True)
    assert len(set(shared.curves)) == 1


def test_tables_survive_the_disk_and_refuse_to_be_mixed(tmp_path: Path) -> None:
    own = table("a/gate", 1, 1)
    own.write(tmp_path / "t.npz")
    again = UtilityTable.read(tmp_path / "t.npz")
    assert again.texts == own.texts
    assert np.allclose(again.ndcg, own.ndcg)
    assert np.allclose(again.states, own.states, atol=1e-3)
    with pytest.raises(InputError, match="measure them again"):
        join([own, UtilityTable("x", ("base", "red"), own.texts, own.states, own.ndcg[:2])])
    with pytest.raises(InputError, match="base"):
        UtilityTable("x", ("red", "base", "blue"), own.texts, own.states, own.ndcg)


def test_settings_survive_the_disk_and_damage_is_named(tmp_path: Path) -> None:
    settings = GateSettings(np.linspace(-1, 1, WIDTH).astype(np.float32), threshold=0.61)
    settings.write(tmp_path)
    again = read_settings(tmp_path, WIDTH)
    assert again is not None
    assert again.threshold == 0.61
    assert np.allclose(again.center, settings.center, atol=1e-5)
    assert read_settings(tmp_path / "nowhere", WIDTH) is None
    for damage in ("{", "[]", '{"format": 2}', '{"format": 1, "center": [1]}'):
        (tmp_path / "gate.json").write_text(damage)
        with pytest.raises(ModelError, match=r"gate\.json"):
            read_settings(tmp_path, WIDTH)


def test_noise_is_repeatable_varied_and_in_many_languages() -> None:
    assert len(foreign_words()) >= 15
    assert foreign_queries(40) == foreign_queries(40)
    assert foreign_queries(40) != foreign_queries(40, seed=1)
    strings = random_strings(80)
    assert len(set(strings)) > 70
    assert all(text.strip() for text in strings)
