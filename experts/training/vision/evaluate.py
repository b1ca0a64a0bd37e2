"""Retrieval figures: captions to images, and composed queries to images."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .sets import ImageRow

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class CaptionQueries:
    """Caption queries over one gallery.

    Attributes:
        captions: Distinct captions, the queries.
        relevant: For each caption the positions of all images that carry it.
    """

    captions: tuple[str, ...]
    relevant: tuple[tuple[int, ...], ...]


def caption_queries(rows: Sequence[ImageRow]) -> CaptionQueries:
    """Make one query of every distinct caption.

    Args:
        rows: The gallery.

    Returns:
        Captions in order of first appearance.
    """
    carriers: dict[str, list[int]] = defaultdict(list)
    for position, row in enumerate(rows):
        for caption in row.captions:
            carriers[caption].append(position)
    return CaptionQueries(tuple(carriers), tuple(tuple(found) for found in carriers.values()))


def first_hits(
    scores: Floats,
    relevant: Sequence[Sequence[int]],
    excluded: Sequence[int] | None = None,
) -> npt.NDArray[np.int64]:
    """Rank of the best relevant image of every query.

    Args:
        scores: float [queries, gallery], higher is better.
        relevant: Positions of the right images of every query.
        excluded: One gallery position a query that is left out of its ranking.

    Returns:
        Ranks from 0; ties count against the query.
    """
    ranks = np.empty(len(scores), np.int64)
    for row, (values, right) in enumerate(zip(scores, relevant, strict=True)):
        others = np.ones(len(values), bool)
        others[list(right)] = False
        if excluded is not None and excluded[row] >= 0:
            others[excluded[row]] = False
        ranks[row] = np.count_nonzero(values[others] >= values[list(right)].max())
    return ranks


def recall_at(
    ranks: npt.NDArray[np.int64], cutoffs: Sequence[int] = (1, 5, 10)
) -> dict[str, float]:
    """Share of queries with a relevant image among the first k.

    Args:
        ranks: Ranks from 0 of the best relevant image.
        cutoffs: Values of k.

    Returns:
        ``R@k`` for every k, between 0 and 1.
    """
    return {f"R@{cutoff}": float(np.mean(ranks < cutoff)) for cutoff in cutoffs}


def caption_recall(
    rows: Sequence[ImageRow], images: Floats, texts: dict[str, Floats]
) -> dict[str, float]:
    """Text-to-image recall with every distinct caption as a query.

    Args:
        rows: The gallery.
        images: Image vectors, float32 [n, d], in the order of `rows`.
        texts: Vector of every caption.

    Returns:
        ``R@1``, ``R@5`` and ``R@10``.
    """
    queries = caption_queries(rows)
    vectors = np.stack([texts[caption] for caption in queries.captions])
    return recall_at(first_hits(vectors @ images.T, queries.relevant))
