"""The text graph as the runtime feeds it: adapter bank, gate, pseudo-words, batch invariance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniembed.models.arrays import AdapterBank, GateArrays
from omniembed.models.batching import TOKEN_BUDGET, batches
from omniembed.models.model import Model
from omniembed.models.text import AUTO, TextTower
from omniembed.router import decide

TEXTS = [
    "how do I sort a list in python?",
    "a red bicycle leaning on a wall",
    "book a flight to Oslo for two people",
    "x",
    "does vitamin D lower the risk of fractures in older adults, and by how much?",
]
EXPERTS, RANK = 4, 8


@pytest.fixture(scope="module")
def tower() -> TextTower:
    return Model.load("mini").text


@pytest.fixture(scope="module")
def bank() -> AdapterBank:
    """Random adapters, strong enough to move a vector visibly; row 0 is the base."""
    rng = np.random.default_rng(0)
    targets = Model.load("mini").manifest.lora
    a = {t.name: rng.normal(0, 0.05, (EXPERTS, RANK, t.d_in)).astype(np.float32) for t in targets}
    b = {t.name: rng.normal(0, 0.05, (EXPERTS, RANK, t.d_out)).astype(np.float32) for t in targets}
    for arrays in (a, b):
        for array in arrays.values():
            array[0] = 0
    return AdapterBank(("base", "one", "two", "three"), a, b)


def gate(seed: int, *, temperature: float = 0.1, threshold: float = 0.5) -> GateArrays:
    rng = np.random.default_rng(seed)
    pilots = rng.normal(size=(9, 384)).astype(np.float32)
    pilots /= np.linalg.norm(pilots, axis=1, keepdims=True)
    experts = np.array([[0, -1e4, 1], [8, 0.1, 0.7], [8, -0.2, 0.6], [8, 0.2, 1]], np.float32)
    return GateArrays(
        pilots,
        np.array([1, 1, 2, 3, 3, 3, 2, 1, 3], np.int64),
        rng.normal(0, 0.02, 384).astype(np.float32),
        experts,
        np.array([temperature, threshold, 0.2], np.float32),
    )


def column(*experts: int) -> np.ndarray:
    return np.array(experts, np.int64).reshape(-1, 1)


def test_a_mixed_batch_equals_every_row_alone(tower: TextTower, bank: AdapterBank) -> None:
    tokens = tower.tokenizer.encode(TEXTS)
    experts = column(0, 1, 2, 3, 1)
    mixed = tower.encode(tokens, experts=experts, bank=bank).vectors
    for row in range(len(TEXTS)):
        alone = tower.encode([tokens[row]], experts=experts[[row]], bank=bank).vectors
        assert np.array_equal(mixed[row], alone[0])
    base = tower.encode(tokens).vectors
    assert np.allclose(mixed[0], base[0], atol=1e-6)
    assert (mixed[1:] * base[1:]).sum(axis=1).max() < 0.99


def test_weights_scale_an_adapter(tower: TextTower, bank: AdapterBank) -> None:
    tokens = tower.tokenizer.encode(TEXTS)
    experts = column(1, 1, 1, 1, 1)
    cosine = []
    base = tower.encode(tokens).vectors
    for weight in (0.0, 0.5, 1.0):
        weights = np.full((len(TEXTS), 1), weight, np.float32)
        vectors = tower.encode(tokens, experts=experts, weights=weights, bank=bank).vectors
        cosine.append(float((vectors * base).sum(axis=1).mean()))
    assert cosine[0] == pytest.approx(1, abs=1e-5)
    assert cosine[0] > cosine[1] > cosine[2]


def test_two_rows_of_the_bank_add_up(tower: TextTower, bank: AdapterBank) -> None:
    tokens = tower.tokenizer.encode(TEXTS)
    halves = tower.encode(
        tokens,
        experts=np.full((len(TEXTS), 2), 2, np.int64),
        weights=np.full((len(TEXTS), 2), 0.5, np.float32),
        bank=bank,
    ).vectors
    whole = tower.encode(tokens, experts=column(2, 2, 2, 2, 2), bank=bank).vectors
    assert (halves * whole).sum(axis=1).min() > 0.9999


@pytest.mark.parametrize("temperature", [0.01, 0.1, 10.0])
@pytest.mark.parametrize("k", [1, 2])
def test_the_graph_decides_as_the_reference(
    tower: TextTower, bank: AdapterBank, temperature: float, k: int
) -> None:
    tokens = tower.tokenizer.encode([f"{text} {n}" for n in range(8) for text in TEXTS])
    for seed in range(3):
        arrays = gate(seed, temperature=temperature)
        experts = np.full((len(tokens), k), AUTO, np.int64)
        output = tower.encode(tokens, experts=experts, bank=bank, gate=arrays)
        expected = decide(output.states, arrays, k)
        assert np.array_equal(output.chosen, expected.experts)
        assert np.allclose(output.weights, expected.weights, atol=1e-4)
        assert np.allclose(output.scores, expected.scores, atol=1e-4)
        assert np.allclose(output.confidence, expected.confidence, atol=1e-4)


def test_what_the_gate_chose_is_what_served(tower: TextTower, bank: AdapterBank) -> None:
    tokens = tower.tokenizer.encode(TEXTS)
    auto = column(*[AUTO] * len(TEXTS))
    output = tower.encode(tokens, experts=auto, bank=bank, gate=gate(1, threshold=0.0))
    assert output.chosen.max() > 0
    forced = tower.encode(tokens, experts=output.chosen, weights=output.weights, bank=bank)
    assert np.allclose(output.vectors, forced.vectors, atol=1e-6)


def test_above_every_confidence_the_gate_abstains(tower: TextTower, bank: AdapterBank) -> None:
    tokens = tower.tokenizer.encode(TEXTS)
    auto = column(*[AUTO] * len(TEXTS))
    output = tower.encode(tokens, experts=auto, bank=bank, gate=gate(1, threshold=1.0))
    assert not output.chosen.any()
    assert not output.weights.any()
    assert np.allclose(output.vectors, tower.encode(tokens).vectors, atol=1e-6)


def test_pseudo_words_are_read_after_the_first_token(tower: TextTower) -> None:
    tokens = tower.tokenizer.encode(TEXTS)
    rng = np.random.default_rng(3)
    prefix = rng.normal(0, 0.05, (len(TEXTS), 2, 384)).astype(np.float32)
    moved = tower.encode(tokens, prefix=prefix).vectors
    plain = tower.encode(tokens).vectors
    assert (moved * plain).sum(axis=1).max() < 0.9999
    alone = tower.encode([tokens[2]], prefix=prefix[[2]]).vectors
    assert np.array_equal(moved[2], alone[0])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 600), max_size=80), st.integers(1, 8))
def test_batches_cover_every_row_once_within_the_budget(lengths: list[int], workers: int) -> None:
    grouped = batches(lengths, workers=workers)
    assert sorted(row for batch in grouped for row in batch) == list(range(len(lengths)))
    for batch in grouped:
        longest = max(lengths[row] for row in batch)
        assert len(batch) == 1 or longest * len(batch) <= TOKEN_BUDGET
