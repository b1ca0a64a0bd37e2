"""Routing at run time: a model directory with a gate, from packs to routes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from test_experts import write_pack
from typer.testing import CliRunner

from omniembed import OmniEmbed
from omniembed.cli import app
from omniembed.experts import load_pack
from omniembed.experts.pilots import Pilots
from omniembed.models.arrays import Floats
from omniembed.models.model import BUNDLED, Model
from omniembed.models.text import TextTower
from omniembed.router import GateSettings, assemble, gate_scores
from omniembed.router.kinds import UNKNOWN, KindClassifier, fit_kinds, kept
from omniembed.router.table import UtilityTable
from omniembed.sample import sample_directory

CODE = ["sort a list in python", "read a file line by line", "reverse a string in java"]
COOK = ["how long to boil an egg", "recipe for onion soup", "bake bread without yeast"]
CAT = sample_directory() / "images" / "cat.webp"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled base with a gate and two experts whose pilots are real states."""
    folder = tmp_path_factory.mktemp("model")
    for file in (BUNDLED / "mini").iterdir():
        if file.is_file() and file.name != "gate.json":
            (folder / file.name).symlink_to(file)
    model = Model.load(folder)
    tokenizer, text = model.text.tokenizer, model.text
    states = {
        name: text.encode(tokenizer.encode(queries)).states
        for name, queries in {"coder": CODE, "cook": COOK}.items()
    }
    center = np.concatenate(list(states.values())).mean(axis=0)
    for seed, (name, own) in enumerate(states.items()):
        pack = write_pack(folder / "experts" / name, name, seed=seed)
        mean = own.mean(axis=0, keepdims=True)
        pilots = Pilots(mean / np.linalg.norm(mean), ("toy",), ((CODE, COOK)[seed][0],))
        pilots.write(pack)
    kinds = folder / "experts" / "coder" / "card.json"
    kinds.write_text(json.dumps({**json.loads(kinds.read_text()), "kinds": ["code"]}))
    GateSettings(
        center, threshold=0.7, cover=0.9, slope=8.0, offset=-1.0, kinds=_kinds(text, center)
    ).write(folder)
    return folder


def _kinds(text: TextTower, center: Floats) -> dict[str, Floats]:
    """Code and text by these queries, tools and images by others, noise by none."""
    asked = {
        "code": [*CODE, "sort a list in python", "read a csv file"],
        "text": [*COOK, "why is the sky blue"],
        "tool": ["book me a table for two", "what will the weather be tomorrow in Rome"],
        "image": ["a red double-decker bus in front of a church", "two dogs on a beach"],
        UNKNOWN: ["xqz 77 ;;", "qq zx 9"],
    }
    tables = []
    for name, queries in asked.items():
        states = text.encode(text.tokenizer.encode(queries)).states
        ndcg = np.zeros((1, len(queries)), np.float32)
        tables.append(UtilityTable(name, ("base",), tuple(queries), states, ndcg))
    fitted = fit_kinds(tables[:4], list(asked)[:4], tables[4:], center, penalty=1e-3)
    return dict(fitted.weights)


@pytest.fixture
def routed(directory: Path, tmp_path: Path) -> OmniEmbed:
    return OmniEmbed(directory, tmp_path / "s.lance")


def test_the_gate_sends_queries_to_the_expert_they_resemble(routed: OmniEmbed) -> None:
    routes = routed.route([*CODE, *COOK, "xqz 77 ;;"])
    assert [route.expert for route in routes[:6]] == ["coder"] * 3 + ["cook"] * 3
    assert set(routes[0].scores) == {"coder", "cook"}
    assert routes[0].confidence == max(routes[0].scores.values()) >= 0.7
    assert not routes[0].abstained
    assert routes[-1].expert == "base"
    assert routes[-1].abstained
    assert "threshold" in routes[-1].reason


def test_a_routed_vector_is_that_of_the_forced_expert(routed: OmniEmbed) -> None:
    queries = [CODE[0], "xqz 77 ;;", COOK[1]]
    auto = routed.embed_queries(queries)
    for row, expert in enumerate(["coder", "base", "cook"]):
        forced = routed.embed_queries([queries[row]], expert=expert)
        assert np.array_equal(auto[row], forced[0])


def test_a_route_names_near_pilots(routed: OmniEmbed) -> None:
    nearest = routed.route(COOK[2]).nearest
    assert nearest[0].expert == "cook"
    assert nearest[0].dataset == "toy"
    assert nearest[0].example == COOK[0]
    assert nearest[0].similarity > nearest[-1].similarity


def test_removing_an_expert_leaves_the_others_scores(routed: OmniEmbed, directory: Path) -> None:
    before = routed.route(CODE[0]).scores["coder"]
    routed.experts.remove("cook")
    assert routed.route(CODE[0]).scores == {"coder": before}
    assert routed.route(COOK[0]).abstained
    routed.experts.add(directory / "experts" / "cook")
    assert routed.route(COOK[0]).expert == "cook"


def test_a_search_keeps_to_the_kinds_that_the_query_is_after(routed: OmniEmbed) -> None:
    routed.index(sample_directory())
    query = routed.embedder.query_encoder
    sure = routed.search("sort a list in python", top_k=5)
    assert {hit.document.kind for hit in sure} == {"code"}
    everything = routed.search("sort a list in python", top_k=20, kinds=["text", "tool"])
    assert "code" not in {hit.document.kind for hit in everything}
    unsure = routed.search("xqz 77 ;;", top_k=20)
    assert len({hit.document.kind for hit in unsure}) > 1
    assert query.settings is not None
    forced = routed.search("sort a list in python", top_k=20, expert="base")
    assert len({hit.document.kind for hit in forced}) > 1


def test_a_store_without_the_likely_kinds_still_answers(routed: OmniEmbed) -> None:
    routed.index([{"id": "faq", "text": "Money back within 30 days.", "title": "Refunds"}])
    found = routed.search("sort a list in python")
    assert [hit.document.id for hit in found] == ["faq"]
    assert routed.search("sort a list in python", kinds="all")[0].score == found[0].score
    assert routed.search("sort a list in python", kinds="code") == []


def test_cover_trades_kinds_for_safety() -> None:
    random = np.random.default_rng(0)
    peaks = np.eye(8, dtype=np.float32)[:4]

    def blob(row: int, count: int) -> UtilityTable:
        states = peaks[row] + random.normal(scale=0.35, size=(count, 8)).astype(np.float32)
        states /= np.linalg.norm(states, axis=1, keepdims=True)
        ndcg = np.zeros((1, count), np.float32)
        return UtilityTable(f"{row}", ("base",), ("q",) * count, states, ndcg)

    names = ["code", "image", "text"]
    fitted = fit_kinds([blob(row, 200) for row in range(3)], names, [blob(3, 200)], peaks.mean(0))
    total = fitted.probabilities(blob(0, 5).states).sum(axis=1)
    assert np.allclose(total, 1, atol=1e-5)
    held = [blob(row, 300) for row in range(3)]
    shares = [kept(fitted, held, names, cover) for cover in (0.5, 0.8, 0.95, 0.999)]
    assert [stay for stay, _ in shares] == sorted(stay for stay, _ in shares)
    assert [ruled for _, ruled in shares] == sorted((ruled for _, ruled in shares), reverse=True)
    assert shares[0][1] > 0.5
    assert shares[-1][0] > 0.99
    noise = fitted.likely(blob(3, 100).states, 0.95)
    assert noise.count(None) > 90
    assert KindClassifier(fitted.center, fitted.weights).likely(held[0].states[:0], 0.9) == []


def test_pictures_and_composed_queries_do_not_ask_the_gate(routed: OmniEmbed) -> None:
    picture, both = routed.route([CAT, (CAT, "asleep")])
    assert picture.expert == both.expert == "base"
    assert picture.scores == both.scores == {}
    assert "picture" in picture.reason
    assert "composed" in both.reason


def test_rows_of_an_expert_depend_on_its_pack_alone(directory: Path) -> None:
    manifest = Model.load(directory).manifest
    packs = {name: load_pack(directory / "experts" / name, manifest) for name in ("coder", "cook")}
    settings = GateSettings(np.zeros(manifest.gate_dim, np.float32))
    both = assemble(settings, packs, ("base", "coder", "cook"))
    one = assemble(settings, {"cook": packs["cook"]}, ("base", "cook"))
    states = packs["cook"].pilots
    # Equal but for the last bit: a product of another width adds in another order.
    assert np.allclose(gate_scores(states, both)[:, 2], gate_scores(states, one)[:, 1], atol=1e-6)
    assert np.array_equal(both.experts[2], one.experts[1])


def test_an_expert_without_pilots_is_never_chosen(directory: Path, tmp_path: Path) -> None:
    omni = OmniEmbed(directory, tmp_path / "s.lance")
    pack = write_pack(tmp_path / "silent", "silent")
    (pack / "pilots.safetensors").unlink()
    omni.experts.add(pack)
    for route in omni.route([*CODE, *COOK]):
        assert "silent" not in route.scores
        assert route.expert != "silent"


def test_the_command_explains(directory: Path) -> None:
    result = CliRunner().invoke(app, ["route", CODE[0], "--model", str(directory)])
    assert result.exit_code == 0, result.output
    assert "coder" in result.output
    assert "near coder/toy" in result.output
    result = CliRunner().invoke(app, ["route", "--json", COOK[0], "--model", str(directory)])
    record = json.loads(result.stdout)
    assert record["expert"] == "cook"
    assert record["nearest"][0]["dataset"] == "toy"


def test_a_model_without_a_gate_says_so(directory: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(directory, bare)
    (bare / "gate.json").unlink()
    route = OmniEmbed(bare, tmp_path / "s.lance").route(CODE[0])
    assert route.abstained
    assert "no gate" in route.reason
