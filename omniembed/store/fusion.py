"""Reciprocal rank fusion of two result lists."""

from __future__ import annotations

from collections.abc import Sequence

from ..types import Document

Found = list[tuple[float, Document]]
"""Documents with their scores, best first."""

RRF_K = 60
"""The constant of Cormack et al. 2009: how much lower ranks still count."""


def fuse(lists: Sequence[Found], *, top_k: int) -> Found:
    """Merge ranked lists by the sum of 1 / (k + rank).

    Args:
        lists: each best first; a document is known by its id.
        top_k: number of documents wanted.

    Returns:
        Documents with fused scores, best first; ties are broken by id.
    """
    scores: dict[str, float] = {}
    documents: dict[str, Document] = {}
    for found in lists:
        for rank, (_, document) in enumerate(found, 1):
            scores[document.id] = scores.get(document.id, 0.0) + 1 / (RRF_K + rank)
            documents.setdefault(document.id, document)
    best = sorted(scores, key=lambda key: (-scores[key], key))[:top_k]
    return [(scores[key], documents[key]) for key in best]
