# ruff: noqa: E402
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")
pytest.importorskip("pytrec_eval")

from peft import PeftModel
from training_kit import tiny_base, tiny_tower, toy_records, write_lines

from omniembed.errors import InputError, PackError
from omniembed.experts.training import loop
from omniembed.experts.training.base import Base
from omniembed.experts.training.evaluate import evaluate
from omniembed.experts.training.generate import extractive, generate_pairs, load_generator
from omniembed.experts.training.loop import TrainConfig, fit
from omniembed.experts.training.lora import WEIGHTS, Adapter, LoraSettings, average
from omniembed.experts.training.pairs import read_pairs
from omniembed.experts.training.strength import choose_scale
from omniembed.experts.training.tasks import Probe, Task, build_task, partition
from omniembed.experts.training.tower import encode_queries, query_states
from omniembed.experts.training.user import UserConfig, train_expert
from omniembed.types import Document, Kind

CONFIG = TrainConfig(steps=30, batch_size=16, learning_rate=5e-3, rank=4, alpha=8, eval_every=10)


@pytest.fixture
def base(tmp_path: Path) -> Base:
    return tiny_base(tmp_path / "cache")


def toy_task(base: Base, folder: Path) -> Task:
    collection = read_pairs(write_lines(folder / "toy.jsonl", toy_records(30, 4)))
    part = partition(collection, gate_share=0.1, unseen_share=0.2)
    return build_task(collection, part, base)


def adapter_of(base: Base, **options: object) -> Adapter:
    return Adapter(base.tower, LoraSettings(base.targets, 4, 8), **options)  # type: ignore[arg-type]


def test_states_agree_with_the_whole_encoder(base: Base) -> None:
    texts = ["w1", "w2 w3 w4 w5 w6", "w7 w8", "w9 " * 300]
    states = query_states(base.tower, texts, base.states)
    for row, ids in enumerate(base.tower.tokenize(texts)):
        with torch.inference_mode():
            hidden = base.tower.model(torch.tensor([ids])).last_hidden_state.mean(dim=1)
        expected = torch.nn.functional.normalize(hidden, dim=-1)[0].numpy()
        assert np.allclose(states.base[row], expected, atol=1e-5)
    assert states.lengths().max() == 128
    assert np.allclose(encode_queries(base.tower, states), states.base, atol=2e-3)


def test_training_learns_and_leaves_the_base_alone(base: Base, tmp_path: Path) -> None:
    task = toy_task(base, tmp_path)
    frozen = {name: value.clone() for name, value in base.tower.model.state_dict().items()}
    adapter = adapter_of(base)
    assert np.allclose(
        encode_queries(base.tower, task.train.states), task.train.states.base, atol=2e-3
    ), "a new adapter changes nothing"
    before = evaluate(task.train.states.base, task.documents, task.train.labels).mean()
    progress = fit(base.tower, adapter, [task], replace(CONFIG, patience=99), tmp_path / "run")
    assert [look["step"] for look in progress.history] == [0, 10, 20, 30]
    content = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)
    adapter.load_state(content["adapter"])
    after = evaluate(
        encode_queries(base.tower, task.train.states), task.documents, task.train.labels
    )
    assert after.mean().ndcg > before.ndcg + 0.05
    adapter.remove(base.tower)
    for name, value in base.tower.model.state_dict().items():
        assert torch.equal(value, frozen[name]), name
    assert json.loads((tmp_path / "run" / "history.json").read_text())[-1]["step"] == 30


def test_interrupted_run_ends_as_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(CONFIG, patience=99)

    def run(name: str) -> dict[str, object]:
        base = tiny_base(tmp_path / "cache")
        adapter = adapter_of(base)
        fit(base.tower, adapter, [toy_task(base, tmp_path)], config, tmp_path / name)
        return adapter.state()

    whole = run("whole")
    real, calls = loop.make_batch, iter(range(1000))

    def dying(*arguments: object) -> object:
        if next(calls) == 17:
            raise KeyboardInterrupt
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "make_batch", dying)
    with pytest.raises(KeyboardInterrupt):
        run("torn")
    monkeypatch.setattr(loop, "make_batch", real)
    resumed = run("torn")
    assert resumed.keys() == whole.keys()
    for name, value in whole.items():
        assert torch.equal(value, resumed[name]), name  # type: ignore[arg-type]


def test_run_without_progress_stops(base: Base, tmp_path: Path) -> None:
    config = replace(CONFIG, learning_rate=1e-12, steps=200, patience=2)
    progress = fit(base.tower, adapter_of(base), [toy_task(base, tmp_path)], config, tmp_path / "r")
    assert progress.step < 200


def test_broken_numbers_are_reported(base: Base, tmp_path: Path) -> None:
    adapter = adapter_of(base)
    with torch.no_grad():
        adapter.parameters()[0].fill_(float("nan"))
        adapter.parameters()[1].fill_(1.0)
    with pytest.raises(Exception, match="loss became nan"):
        fit(base.tower, adapter, [toy_task(base, tmp_path)], CONFIG, tmp_path / "r")


def test_saved_adapter_loads_in_peft(base: Base, tmp_path: Path) -> None:
    adapter = adapter_of(base, seed=3)
    with torch.no_grad():
        for weight in adapter.parameters():
            weight.normal_(std=0.1)
    adapter.save(tmp_path / "pack")
    assert {path.name for path in (tmp_path / "pack").iterdir()} == {"adapter_config.json", WEIGHTS}
    states = query_states(tiny_tower(), ["w1 w2", "w3"], base.states)
    ours = encode_queries(base.tower, states)
    other = tiny_tower()
    PeftModel.from_pretrained(other.model, str(tmp_path / "pack"))
    assert np.allclose(encode_queries(other, states), ours, atol=2e-3)
    assert not np.allclose(ours, states.base, atol=1e-2)
    adapter.scale(0.0)
    assert np.allclose(encode_queries(base.tower, states), states.base, atol=2e-3)


def test_adapter_starts_from_another(base: Base, tmp_path: Path) -> None:
    adapter = adapter_of(base, seed=5)
    adapter.save(tmp_path / "pack")
    state = adapter.state()
    adapter.remove(base.tower)
    again = adapter_of(base, seed=9, start=tmp_path / "pack")
    for name, value in again.state().items():
        assert torch.allclose(value, state[name], atol=1e-3)
    again.remove(base.tower)
    with pytest.raises(PackError):
        Adapter(base.tower, LoraSettings(base.targets, 2, 8), start=tmp_path / "pack")


@pytest.mark.parametrize(("count", "rank"), [(1, 4), (2, 8), (3, 12), (3, 4)])
def test_average_is_that_of_the_updates(base: Base, count: int, rank: int) -> None:
    states = []
    for seed in range(count):
        adapter = adapter_of(base, seed=seed)
        with torch.no_grad():
            for weight in adapter.parameters():
                weight.normal_(std=0.1)
        states.append(adapter.state())
        adapter.remove(base.tower)
    merged = average(states, rank)
    assert merged.keys() == states[0].keys()
    for down in (name for name in merged if ".lora_A." in name):
        up = down.replace(".lora_A.", ".lora_B.")
        wanted = torch.stack([state[up] @ state[down] for state in states]).mean(dim=0)
        left, values, right = torch.linalg.svd(wanted)
        best = left[:, :rank] @ torch.diag(values)[:rank, :rank] @ right[:rank]
        assert merged[down].shape[0] == rank
        # As near as any update of that rank can be.
        assert torch.allclose(merged[up] @ merged[down], best, atol=1e-5)


def test_strength_is_the_best_of_those_tried(base: Base, tmp_path: Path) -> None:
    task = toy_task(base, tmp_path)
    adapter = adapter_of(base)
    fit(base.tower, adapter, [task], CONFIG, tmp_path / "run")
    probes = {"train": Probe(task.train, task.documents)}
    choice = choose_scale(base.tower, adapter, probes, {}, (0.5, 1.0))
    worth = {scale: metrics["train"].ndcg for scale, metrics in choice.measured.items()}
    assert worth.keys() == {0.0, 0.5, 1.0}
    assert choice.scale == max((0.5, 1.0), key=worth.__getitem__)


def test_expert_from_pairs(base: Base, tmp_path: Path) -> None:
    pairs = write_lines(tmp_path / "pairs.jsonl", toy_records(60, 4))
    config = UserConfig(train=replace(CONFIG, steps=10), consistency_depth=30)
    report = train_expert("mine", pairs=pairs, out=tmp_path / "out", base=base, config=config)
    written = json.loads((tmp_path / "out" / "report.json").read_text())
    assert written["better_than_base"] == report.better_than_base
    assert report.dropped > 0
    assert report.gate_queries
    assert 0 < report.scale <= 1
    assert (tmp_path / "out" / WEIGHTS).is_file()
    assert json.loads((tmp_path / "out" / "run" / "config.json").read_text())["base"] == "tiny"
    states = query_states(base.tower, ["w1"], base.states)
    assert np.allclose(encode_queries(base.tower, states), states.base, atol=2e-3), "adapter is off"


def test_too_few_pairs(base: Base, tmp_path: Path) -> None:
    pairs = write_lines(tmp_path / "pairs.jsonl", toy_records(3, 1))
    with pytest.raises(InputError, match="held-out"):
        train_expert("mine", pairs=pairs, out=tmp_path / "out", base=base)
    assert not (tmp_path / "out").exists()


CODE = 'def f():\n    """Sort the list in place. Fast."""\n'


@pytest.mark.parametrize(
    ("document", "queries"),
    [
        (
            Document(text="First thing here. More.", title="A title"),
            ["A title", "First thing here."],
        ),
        (Document(text=CODE, kind=Kind.CODE), ["Sort the list in place."]),
        (Document(text="-- drop all tables\nDROP x", kind=Kind.CODE), ["drop all tables"]),
        (Document(text="# Big heading\n\nIt begins. Ends."), ["Big heading", "It begins."]),
        (Document(text="\x00"), []),
        (Document(text="x", title="word"), []),
    ],
)
def test_extractive_queries(document: Document, queries: list[str]) -> None:
    assert extractive(document) == queries


def test_generated_pairs_find_their_document(base: Base, tmp_path: Path) -> None:
    corpus = [{"id": f"{row}", "text": f"w{row} w{row + 1} w{row + 2}."} for row in range(50)]

    def generator(document: Document) -> list[str]:
        return [document.text, "w0 w0 w0", "  "]

    path = write_lines(tmp_path / "corpus.jsonl", corpus)
    report = generate_pairs(path, tmp_path / "new" / "p.jsonl", base, generator=generator, depth=1)
    assert report.documents == 50
    assert report.generated == 51
    assert 50 <= report.kept <= 51
    pairs = read_pairs(report.path)
    assert len(pairs.splits["train"]) == report.kept


def test_generators_by_name() -> None:
    assert load_generator("extractive") is extractive
    assert load_generator("omniembed.experts.training.generate:extractive") is extractive
    for name in ("", "nowhere:f", "json:nothing", "omniembed.errors", "json:__name__"):
        with pytest.raises(InputError):
            load_generator(name)


def test_generator_without_queries(base: Base, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "corpus.jsonl", [{"text": "w1"}])
    with pytest.raises(InputError, match="no query"):
        generate_pairs(path, tmp_path / "p.jsonl", base, generator=lambda document: [])
