"""Hard negatives from frozen vectors, with guards against false ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...models.arrays import Floats

Rows = NDArray[np.int64]

NONE = -1
"""Fills the places of negatives that were not found."""

_CELLS = 16_000_000
"""Scores held at a time."""


@dataclass(frozen=True)
class MiningConfig:
    """What counts as a hard negative.

    Attributes:
        count: negatives kept a query.
        depth: how far down the ranking to look.
        margin: skip documents that score above ``margin`` times the best positive: they may be
            relevant without a label (positive-aware mining). ``None`` trusts the labels.
    """

    count: int = 16
    depth: int = 64
    margin: float | None = None


def mine(
    queries: Floats,
    documents: Floats,
    relevant: Sequence[Mapping[int, float]],
    best: Floats,
    config: MiningConfig = MiningConfig(),
) -> Rows:
    """Find the documents that a query is most likely to be confused by.

    Args:
        queries: float32 (n, dim), unit norm.
        documents: float32 (m, dim), unit norm.
        relevant: rows of relevant documents, a query each.
        best: float32 (n,), score of every query's best positive.
        config: what to keep.

    Returns:
        int64 (n, count), hardest first; missing ones are :data:`NONE`.
    """
    found = np.full((len(queries), config.count), NONE, np.int64)
    for row, ranking, scores in rank(queries, documents, config.depth):
        keep = ~np.isin(ranking, list(relevant[row]))
        if config.margin is not None:
            keep &= scores <= config.margin * best[row]
        chosen = ranking[keep][: config.count]
        found[row, : len(chosen)] = chosen
    return found


def mine_foreign(queries: Floats, documents: Floats, count: int) -> Rows:
    """Find documents of the wrong kind that rank high in a mixed pool.

    Beside the wrong items of the right kind, from :func:`mine`, they teach a query which kind
    it asks for (modality-aware negatives).

    Args:
        queries: float32 (n, dim), unit norm.
        documents: float32 (m, dim), the documents of other kinds than the queries aim at.
        count: negatives kept a query.

    Returns:
        int64 (n, count), hardest first; missing ones are :data:`NONE`.
    """
    found = np.full((len(queries), count), NONE, np.int64)
    if len(documents) and count:
        for row, ranking, _ in rank(queries, documents, count):
            found[row, : len(ranking)] = ranking
    return found


def consistent(
    queries: Floats, documents: Floats, relevant: Sequence[Mapping[int, float]], depth: int
) -> NDArray[np.bool_]:
    """Tell which labels the frozen model can follow at all (consistency filtering).

    Args:
        queries: float32 (n, dim), unit norm.
        documents: float32 (m, dim), unit norm.
        relevant: rows of relevant documents, a query each.
        depth: a label is kept when a relevant document ranks this high or higher.

    Returns:
        bool (n,), True for queries to keep.
    """
    keep = np.zeros(len(queries), bool)
    for row, ranking, _ in rank(queries, documents, depth):
        keep[row] = bool(np.isin(ranking, list(relevant[row])).any())
    return keep


def rank(queries: Floats, documents: Floats, depth: int) -> Iterator[tuple[int, Rows, Floats]]:
    """Search exactly.

    Args:
        queries: float32 (n, dim), unit norm.
        documents: float32 (m, dim), unit norm.
        depth: length of the rankings.

    Yields:
        Every query's row, its best documents, best first, and their scores.
    """
    depth = min(depth, len(documents))
    step = max(1, _CELLS // max(1, len(documents)))
    for start in range(0, len(queries), step):
        scores = queries[start : start + step] @ documents.T
        best = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
        values = np.take_along_axis(scores, best, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        best = np.take_along_axis(best, order, axis=1)
        values = np.take_along_axis(values, order, axis=1)
        for offset in range(len(scores)):
            yield start + offset, best[offset], values[offset]
