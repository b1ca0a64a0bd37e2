# ruff: noqa: E402
from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("peft")
pytest.importorskip("pytrec_eval")

from training_kit import tiny_base, toy_records, write_lines

from omniembed.experts.training.batches import (
    CandidateConfig,
    make_batch,
    mine_task,
    query_rows,
    schedule,
)
from omniembed.experts.training.data import LabelledQueries
from omniembed.experts.training.evaluate import evaluate
from omniembed.experts.training.losses import drift, info_nce, listwise_distillation
from omniembed.experts.training.negatives import (
    NONE,
    MiningConfig,
    consistent,
    mine,
    mine_foreign,
    rank,
)
from omniembed.experts.training.pairs import read_pairs
from omniembed.experts.training.tasks import Task, build_task, partition

SIZES = st.tuples(st.integers(1, 12), st.integers(1, 30), st.integers(0, 10_000))


def unit(random: np.random.Generator, rows: int, dim: int = 6) -> np.ndarray:
    vectors = random.standard_normal((rows, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@given(SIZES, st.integers(1, 12))
@settings(deadline=None)
def test_rank_is_an_exact_search(sizes: tuple[int, int, int], depth: int) -> None:
    queries, documents, seed = sizes
    random = np.random.default_rng(seed)
    q, d = unit(random, queries), unit(random, documents)
    for row, best, scores in rank(q, d, depth):
        expected = np.sort(q[row] @ d.T)[::-1][:depth]
        assert np.allclose(scores, expected, atol=1e-5)
        assert np.allclose(q[row] @ d[best].T, scores, atol=1e-5)


@given(SIZES, st.one_of(st.none(), st.floats(0.1, 1.2)))
@settings(deadline=None)
def test_mined_negatives_are_negative(sizes: tuple[int, int, int], margin: float | None) -> None:
    queries, documents, seed = sizes
    random = np.random.default_rng(seed)
    q, d = unit(random, queries), unit(random, documents)
    relevant = [{int(random.integers(documents)): 1.0} for _ in range(queries)]
    best = np.array([q[row] @ d[next(iter(one))] for row, one in enumerate(relevant)], np.float32)
    found = mine(q, d, relevant, best, MiningConfig(count=4, depth=8, margin=margin))
    for row, negatives in enumerate(found):
        real = negatives[negatives != NONE]
        assert len(set(real)) == len(real)
        assert not set(real.tolist()) & set(relevant[row])
        if margin is not None:
            assert (q[row] @ d[real].T <= margin * best[row] + 1e-5).all()


def test_consistency_is_about_rank() -> None:
    documents = np.eye(4, dtype=np.float32)
    queries = np.array([[1, 0.9, 0.8, 0]], np.float32)
    for depth, kept in ((1, False), (2, False), (3, True), (9, True)):
        assert consistent(queries, documents, [{2: 1.0}], depth).tolist() == [kept]


def test_no_foreign_documents() -> None:
    queries = np.ones((2, 3), np.float32)
    assert (mine_foreign(queries, np.empty((0, 3), np.float32), 2) == NONE).all()
    assert mine_foreign(queries, queries, 0).shape == (2, 0)


def test_ignored_candidates_do_not_count() -> None:
    scores = torch.tensor([[0.2, 0.9, 0.1]], requires_grad=True)
    target = torch.tensor([0])
    alone = torch.tensor([[True, True, True]])
    assert info_nce(scores, target, alone, 0.05).item() == 0.0
    loss = info_nce(scores, target, torch.tensor([[False, True, False]]), 0.1)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-1)), rel=1e-5)
    loss.backward()
    assert scores.grad is not None
    assert scores.grad[0, 1] == 0
    assert torch.isfinite(scores.grad).all()


def test_distillation() -> None:
    nan = math.nan
    teacher = torch.tensor([[2.0, 1.0, nan], [nan, 5.0, nan], [nan, nan, nan]])
    same = torch.tensor([[0.2, 0.1, 0.9], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
    assert listwise_distillation(same, teacher, 0.1).item() == pytest.approx(0.0, abs=1e-6)
    swapped = torch.tensor([[0.1, 0.2, 0.9]], requires_grad=True)
    loss = listwise_distillation(swapped, teacher[:1], 0.1)
    loss.backward()
    assert loss.item() > 0.1
    assert swapped.grad is not None
    assert swapped.grad[0, 0] < 0 < swapped.grad[0, 1]
    assert swapped.grad[0, 2] == 0
    none = listwise_distillation(same, teacher[[2, 2, 2]], 0.1)
    none.backward()
    assert none.item() == 0


def test_drift() -> None:
    vectors = torch.eye(2)
    assert drift(vectors, vectors).item() == 0
    assert drift(vectors, vectors.flip(0)).item() == 1


def ndcg(ranking: list[int], relevant: dict[int, float]) -> float:
    gains = [relevant.get(row, 0.0) / math.log2(place + 2) for place, row in enumerate(ranking)]
    ideal = sorted(relevant.values(), reverse=True)[:10]
    return sum(gains) / sum(gain / math.log2(place + 2) for place, gain in enumerate(ideal))


@given(SIZES)
@settings(deadline=None)
def test_measures(sizes: tuple[int, int, int]) -> None:
    queries, documents, seed = sizes
    random = np.random.default_rng(seed)
    q, d = unit(random, queries), unit(random, documents)
    relevant = [
        {int(row): float(random.integers(1, 4)) for row in random.integers(0, documents, 3)}
        for _ in range(queries)
    ]
    names = tuple(map(str, range(queries)))
    scores = evaluate(q, d, LabelledQueries(names, names, tuple(relevant)))
    for row in range(queries):
        ranking = np.argsort(-(q[row] @ d.T))[:10].tolist()
        assert scores.ndcg[row] == pytest.approx(ndcg(ranking, relevant[row]), abs=1e-5)
        share = len(set(ranking) & set(relevant[row])) / len(relevant[row])
        assert scores.recall[row] == pytest.approx(share, abs=1e-6)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    folder = tmp_path_factory.mktemp("task")
    records = toy_records(40, 4)
    records[0] = {**records[0], "negatives": ["w50 w51"], "scores": [1.0, 0.0]}
    records[1] = {**records[0], "positive": "w7 w8 w9", "scores": None}
    collection = read_pairs(write_lines(folder / "toy.jsonl", records))
    base = tiny_base(folder)
    part = partition(collection, gate_share=0.1, unseen_share=0.1)
    return build_task(collection, part, base)


def test_batches_name_the_right_documents(task: Task) -> None:
    foreign = {"image": unit(np.random.default_rng(0), 9, 32), task.kind: task.documents}
    config = CandidateConfig(hard=2, foreign=2, random=10)
    mined = mine_task(task, MiningConfig(count=5), config, foreign)
    assert mined.foreign_documents.shape == (9, 32)
    random = np.random.default_rng(0)
    hidden = set(range(len(task.documents))) - set(task.eligible.tolist())
    taught = False
    for rows in query_rows(np.zeros(12, np.int64), [task.train.states.lengths()], 16, 0):
        batch = make_batch(task, mined, rows, config, random)
        candidates = batch.candidates.numpy()
        for index, row in enumerate(rows):
            relevant = task.documents[list(task.train.labels.relevant[row])]
            positive = candidates[batch.target[index]]
            assert (np.abs(relevant - positive).max(axis=1) == 0).any()
            same = (candidates @ relevant.T).max(axis=1) > 1 - 1e-6
            assert batch.ignored[index].numpy()[same].all()
        for row in hidden:
            assert not (candidates == task.documents[row]).all(axis=1).any()
        taught |= batch.teacher is not None
    assert taught


def test_every_query_is_served_in_an_epoch() -> None:
    lengths = np.arange(64) % 7
    rows = list(query_rows(np.zeros(16, np.int64), [lengths], 8, 1))
    assert sorted(np.concatenate(rows[:8]).tolist()) == list(range(64))
    assert sorted(np.concatenate(rows[8:]).tolist()) == list(range(64))
    assert not np.array_equal(np.concatenate(rows[:8]), np.concatenate(rows[8:]))


def test_small_sets_make_small_batches() -> None:
    rows = list(query_rows(np.zeros(3, np.int64), [np.ones(5, np.int64)], 8, 0))
    assert [len(one) for one in rows] == [5, 5, 5]


def test_schedule_favours_larger_sets(task: Task, tmp_path: Path) -> None:
    from dataclasses import replace

    tasks = [task, replace(task, weight=3.0)]
    counts = np.bincount(schedule(tasks, 4000, 0.5, 0), minlength=2)
    assert counts[1] / counts[0] == pytest.approx(3, rel=0.15)
