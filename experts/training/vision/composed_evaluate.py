"""Composed queries: their vectors, their recall, and the baselines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from .combiner import Combiner
from .composed_data import ComposedQueries, ImageBank, gallery_vectors, query_positions
from .composed_lessons import tokenize
from .composed_model import ComposedEncoder
from .evaluate import Floats, first_hits, recall_at
from .sets import Triplet


@torch.inference_mode()
def composed_vectors(
    model: ComposedEncoder | Combiner,
    tokenizer: PreTrainedTokenizerBase,
    bank: ImageBank,
    triplets: Sequence[Triplet],
) -> Floats:
    """Embed composed queries.

    Args:
        model: The expert; it is left in evaluation mode.
        tokenizer: Tokenizer of the text tower.
        bank: The images.
        triplets: The queries.

    Returns:
        Unit vectors, float32 [queries, 384].
    """
    model.eval()
    parts = []
    for start in range(0, len(triplets), 64):
        chunk = triplets[start : start + 64]
        rows = torch.tensor([bank.positions[triplet.reference] for triplet in chunk])
        tokens = tokenize(tokenizer, [triplet.modification for triplet in chunk])
        parts.append(model(bank.features[0, rows].float(), bank.vectors[0, rows], tokens))
    vectors: Floats = torch.cat(parts).numpy()
    return vectors


def composed_recall(vectors: Floats, bank: ImageBank, queries: ComposedQueries) -> dict[str, float]:
    """Recall of composed queries, the reference left out of every ranking.

    Args:
        vectors: Query vectors, float32 [queries, 384].
        bank: The images.
        queries: The queries and their gallery.

    Returns:
        ``R@1`` and ``R@10``.
    """
    targets, references = query_positions(queries)
    scores = vectors @ gallery_vectors(bank, queries).T
    return recall_at(first_hits(scores, targets, references), (1, 10))


def slerp(first: Floats, second: Floats, share: float) -> Floats:
    """Interpolate between unit vectors on the sphere.

    Args:
        first: Unit vectors [n, d].
        second: Unit vectors [n, d], none opposite to its partner.
        share: 0 gives the first, 1 the second.

    Returns:
        Unit vectors [n, d].
    """
    cosine = np.clip((first * second).sum(1, keepdims=True), -1, 1)
    # Where both are the same, any weights do; the sine of a tiny angle avoids 0 / 0.
    angle = np.maximum(np.arccos(cosine), 1e-4)
    mixed = np.sin((1 - share) * angle) * first + np.sin(share * angle) * second
    return np.asarray(mixed / np.sin(angle), np.float32)


def baseline_vectors(images: Floats, texts: Floats) -> dict[str, Floats]:
    """Composed queries without any training.

    Args:
        images: Unit vectors of the reference images, [n, d].
        texts: Unit vectors of the modification texts, [n, d], without the mean direction.

    Returns:
        Query vectors by name of the baseline.
    """
    total = images + texts
    norms = np.linalg.norm(total, axis=1, keepdims=True)
    return {
        "image only": images,
        "text only": texts,
        "sum": np.asarray(total / norms, np.float32),
        "slerp 0.3": slerp(images, texts, 0.3),
    }
