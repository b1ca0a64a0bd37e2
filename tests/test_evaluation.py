"""``omniembed evaluate``: measures, oracles, intervals, and the command itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from omniembed import OmniEmbed
from omniembed.cli import app
from omniembed.errors import InputError, SourceNotFoundError
from omniembed.evaluation import measure_set, read_set, summarise
from omniembed.evaluation.measure import chance_encoders, judge
from omniembed.evaluation.statistics import bootstrap, calibration_error
from omniembed.experts.training.data import LabelledQueries

pytest.importorskip("ir_measures")

DOCUMENTS = {
    "d1": "Sort a list in place with list.sort().",
    "d2": "Boil an egg for eight minutes.",
    "d3": "The treaty ended the war in 1648.",
    "d4": "Photosynthesis turns light into sugar.",
}
QUERIES = {
    "q1": ("how do I sort a list", "d1"),
    "q2": ("cooking an egg", "d2"),
    "q3": ("which treaty ended the war", "d3"),
}


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    folder = tmp_path / "toy"
    (folder / "qrels").mkdir(parents=True)
    corpus = [json.dumps({"_id": one, "text": text}) for one, text in DOCUMENTS.items()]
    queries = [json.dumps({"_id": one, "text": text}) for one, (text, _) in QUERIES.items()]
    labels = ["query-id\tcorpus-id\tscore", *(f"{q}\t{d}\t1" for q, (_, d) in QUERIES.items())]
    (folder / "corpus.jsonl").write_text("\n".join(corpus))
    (folder / "queries.jsonl").write_text("\n".join(queries))
    (folder / "qrels" / "test.tsv").write_text("\n".join(labels) + "\n")
    return folder


def test_judging_agrees_with_the_definition_of_ndcg() -> None:
    documents = np.eye(4, dtype=np.float32)
    ranking = np.array([[0.9, 0.8, 0.7, 0.1]], np.float32)
    queries = LabelledQueries(("q",), ("q",), ({1: 1.0, 3: 1.0},))
    ndcg, recall = judge(ranking, documents, queries)
    ideal = 1 + 1 / np.log2(3)
    assert ndcg[0] == pytest.approx((1 / np.log2(3) + 1 / np.log2(5)) / ideal)
    assert recall[0] == 1


def test_a_set_is_measured_with_every_encoder(beir: Path) -> None:
    embedder = OmniEmbed("mini").embedder
    found = read_set(beir)
    documents = embedder.embed_documents(found.documents)
    result = measure_set(embedder, found.name, found.queries, documents)
    assert len(result) == 3
    assert set(result.experts) == {
        name for name, pack in embedder.experts.state.packs.items() if pack.composed is None
    }
    report = summarise([result])
    figures = {one.name: one for one in report.figures}
    assert figures["base"].ndcg == pytest.approx(1.0)
    assert figures["base"].gain == 0
    assert figures["instance oracle"].ndcg >= figures["dataset oracle"].ndcg
    assert figures["dataset oracle"].ndcg >= max(result.ndcg[one].mean() for one in result.experts)
    assert report.regret >= 0
    assert report.queries == {"toy/test": 3}


def test_chance_encoders_turn_queries_by_the_same_angle() -> None:
    random = np.random.default_rng(0)
    best, other = random.standard_normal((2, 50, 384)).astype(np.float32)
    other = best + 0.3 * other
    best /= np.linalg.norm(best, axis=1, keepdims=True)
    other /= np.linalg.norm(other, axis=1, keepdims=True)
    (made,) = chance_encoders(best, [other], seed=1)
    assert np.allclose((made * best).sum(1), (other * best).sum(1), atol=1e-5)
    assert np.allclose(np.linalg.norm(made, axis=1), 1, atol=1e-5)
    assert np.abs((made * other).sum(1)).mean() < (best * other).sum(1).mean()


def test_intervals_cover_the_mean_and_shrink_with_more_queries() -> None:
    random = np.random.default_rng(0)
    few, many = random.random(50), random.random(5000)
    for values in (few, many):
        low, high = bootstrap([values])
        assert low < values.mean() < high
    assert np.diff(bootstrap([many])) < np.diff(bootstrap([few])) / 5


def test_calibration_error_is_the_gap_between_saying_and_doing() -> None:
    sure = np.full(1000, 0.8)
    won = np.arange(1000) % 10 < 8
    assert calibration_error([sure], [won]) == pytest.approx(0, abs=0.01)
    assert calibration_error([np.full(1000, 0.5)], [won]) == pytest.approx(0.3, abs=0.01)
    assert calibration_error([np.zeros(0)], [np.zeros(0, bool)]) == 0


def test_the_command_writes_a_table_json_and_a_picture(beir: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(
        "\n".join(json.dumps({"query": q, "positive": DOCUMENTS[d]}) for q, d in QUERIES.values())
    )
    record, picture = tmp_path / "report.json", tmp_path / "report.png"
    arguments = ["evaluate", str(beir), str(pairs), "--json", str(record), "--plot", str(picture)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "routing accuracy" in result.output
    report = json.loads(record.read_text())
    assert report["queries"] == {"toy/test": 3, "pairs.jsonl": 3}
    assert {one["name"] for one in report["figures"]} >= {"base", "routed", "chance oracle"}
    with Image.open(picture) as drawn:
        assert drawn.format == "PNG"
        assert len(drawn.convert("RGB").getcolors(10**7) or []) > 10


def test_unusable_sets_are_named(beir: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="it has test"):
        read_set(beir, split="dev")
    with pytest.raises(SourceNotFoundError, match="does not exist"):
        read_set(tmp_path / "nowhere")
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tnone\t1\n")
    with pytest.raises(InputError, match="none"):
        read_set(beir)
