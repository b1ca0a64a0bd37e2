"""Batches of one task: queries, candidate documents, and who may count against whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...models.arrays import Floats
from .negatives import NONE, MiningConfig, Rows, mine, mine_foreign
from .tasks import Task

_FOREIGN_DEPTH = 4
"""Negatives of the wrong kind are drawn among this many times as many."""

_WINDOW = 8
"""Batches among which queries are sorted by length."""


@dataclass(frozen=True)
class CandidateConfig:
    """Which documents a query is compared with, beside the positives of its batch.

    Attributes:
        hard: mined negatives a query, drawn anew every time.
        foreign: mined negatives of the wrong kind a query.
        random: further documents of the pool a batch. Document vectors are frozen, so they cost
            one matrix product.
        copy_threshold: documents this similar to the positive are taken for copies of it.
    """

    hard: int = 4
    foreign: int = 1
    random: int = 1024
    copy_threshold: float = 0.97


@dataclass(frozen=True)
class Mined:
    """Negatives of one task.

    Attributes:
        hard: int64 (queries, k), rows of the task's documents.
        foreign: int64 (queries, k), rows of ``foreign_documents``.
        foreign_documents: float32 (f, dim), documents of other kinds.
    """

    hard: Rows
    foreign: Rows
    foreign_documents: Floats


@dataclass(frozen=True)
class Batch:
    """One training step's input.

    Attributes:
        rows: int64 (n,), positions of the queries in the task.
        candidates: float32 (c, dim).
        target: int64 (n,), column of each query's positive.
        ignored: bool (n, c), see :func:`losses.info_nce`.
        teacher: float32 (n, c), NaN where no score was given; ``None`` without a teacher.
    """

    rows: Rows
    candidates: Tensor
    target: Tensor
    ignored: Tensor
    teacher: Tensor | None


def mine_task(
    task: Task, mining: MiningConfig, candidates: CandidateConfig, foreign: Mapping[str, Floats]
) -> Mined:
    """Mine the negatives of a task with the bare base.

    Args:
        task: the set.
        mining: how to mine.
        candidates: how many negatives of the wrong kind a query are wanted.
        foreign: document vectors of a mixed pool, by kind.

    Returns:
        Its negatives.
    """
    queries = task.train.states.base
    relevant = task.train.labels.relevant
    place = {int(row): index for index, row in enumerate(task.eligible)}
    best = np.array(
        [
            (task.documents[list(one)] @ query).max()
            for query, one in zip(queries, relevant, strict=True)
        ],
        np.float32,
    )
    # Positives that are not eligible cannot be mined, so they need not be excluded.
    inside = [{place[row]: 1.0 for row in one if row in place} for one in relevant]
    found = mine(queries, task.documents[task.eligible], inside, best, mining)
    hard = np.where(found == NONE, NONE, task.eligible[found])
    others = [vectors for kind, vectors in foreign.items() if kind != task.kind]
    pool = np.concatenate(others) if others else np.empty((0, queries.shape[1]), np.float32)
    return Mined(hard, mine_foreign(queries, pool, _FOREIGN_DEPTH * candidates.foreign), pool)


def schedule(tasks: Sequence[Task], steps: int, exponent: float, seed: int) -> Rows:
    """Draw the task of every step.

    Args:
        tasks: the sets.
        steps: number of steps.
        exponent: sets are drawn in proportion to their size to this power.
        seed: of the draw.

    Returns:
        int64 (steps,), positions in ``tasks``.
    """
    size = np.array([len(task.train.labels) ** exponent * task.weight for task in tasks])
    return np.random.default_rng(seed).choice(len(tasks), size=steps, p=size / size.sum())


def query_rows(
    order: Rows, lengths: Sequence[NDArray[np.int64]], batch_size: int, seed: int
) -> Iterator[Rows]:
    """Go through every task's queries, epoch after epoch, each in a new order.

    Within a window of some batches, queries of similar length go together: less padding.

    Args:
        order: the task of every step.
        lengths: token counts of the queries of every task.
        batch_size: queries a step; fewer for smaller tasks.
        seed: of the orders.

    Yields:
        int64 (n,), the queries of each step.
    """
    epochs = [0] * len(lengths)
    waiting: list[list[Rows]] = [[] for _ in lengths]
    for task in order:
        if not waiting[task]:
            random = np.random.default_rng([seed, int(task), epochs[task]])
            waiting[task] = _epoch(lengths[task], batch_size, random)
            epochs[task] += 1
        yield waiting[task].pop()


def _epoch(lengths: NDArray[np.int64], batch_size: int, random: np.random.Generator) -> list[Rows]:
    rows = random.permutation(len(lengths))
    batches: list[Rows] = []
    for start in range(0, len(rows), _WINDOW * batch_size):
        window = rows[start : start + _WINDOW * batch_size]
        window = window[np.argsort(lengths[window], kind="stable")]
        batches += [window[at : at + batch_size] for at in range(0, len(window), batch_size)]
    if len(batches) > 1:
        batches = [batch for batch in batches if len(batch) == batch_size] or batches
    return [batches[place] for place in random.permutation(len(batches))]


def make_batch(
    task: Task, mined: Mined, rows: Rows, config: CandidateConfig, random: np.random.Generator
) -> Batch:
    """Collect the candidates of some queries.

    Args:
        task: the set.
        mined: its negatives.
        rows: positions of the queries.
        config: what to collect.
        random: source of every draw.

    Returns:
        The batch.
    """
    labels = task.train.labels
    relevant = [labels.relevant[row] for row in rows]
    positives = np.array([random.choice(list(one)) for one in relevant], np.int64)
    given = [row for query in rows for row in (labels.negatives[query] if labels.negatives else ())]
    spread = random.choice(task.eligible, min(config.random, len(task.eligible)), replace=False)
    own = np.unique(
        np.concatenate(
            [
                positives,
                np.array(given, np.int64),
                _draw(mined.hard[rows], config.hard, random),
                spread,
            ]
        )
    )
    foreign = np.unique(_draw(mined.foreign[rows], config.foreign, random))
    vectors = task.documents[own]
    ignored = np.zeros((len(rows), len(own) + len(foreign)), bool)
    ignored[:, : len(own)] = task.documents[positives] @ vectors.T >= config.copy_threshold
    for index, one in enumerate(relevant):
        ignored[index, : len(own)] |= np.isin(own, list(one))
    return Batch(
        rows=rows,
        candidates=torch.from_numpy(np.concatenate([vectors, mined.foreign_documents[foreign]])),
        target=torch.from_numpy(np.searchsorted(own, positives)),
        ignored=torch.from_numpy(ignored),
        teacher=_teacher(task, rows, own, ignored.shape),
    )


def _draw(rows: Rows, count: int, random: np.random.Generator) -> Rows:
    """Pick ``count`` places of every row, leaving out the empty ones."""
    count = min(count, rows.shape[1])
    places = np.argsort(random.random(rows.shape), axis=1)[:, :count]
    drawn: Rows = np.take_along_axis(rows, places, axis=1).ravel()
    found: Rows = drawn[drawn != NONE]
    return found


def _teacher(task: Task, rows: Rows, own: Rows, shape: tuple[int, ...]) -> Tensor | None:
    teacher = task.train.labels.teacher
    if not teacher or not any(teacher[row] for row in rows):
        return None
    scores: NDArray[np.float32] = np.full(shape, np.nan, np.float32)
    column = {int(row): index for index, row in enumerate(own)}
    for index, row in enumerate(rows):
        for document, score in teacher[row].items():
            if document in column:
                scores[index, column[document]] = score
    return torch.from_numpy(scores)
