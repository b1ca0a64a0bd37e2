"""Losses of the image projection."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .classes import ClassAnchor


def same_caption(carried: Sequence[frozenset[int]], drawn: Sequence[int]) -> Tensor:
    """Mark which captions of a batch are right for which images.

    Args:
        carried: Ids of all captions of every image.
        drawn: Id of the caption drawn for every image.

    Returns:
        bool [images, captions].
    """
    columns: dict[int, list[int]] = {}
    for column, caption in enumerate(drawn):
        columns.setdefault(caption, []).append(column)
    same = torch.zeros(len(carried), len(drawn), dtype=torch.bool)
    for row, captions in enumerate(carried):
        for caption in captions:
            same[row, columns.get(caption, [])] = True
    return same


def contrastive(images: Tensor, texts: Tensor, same: Tensor, temperature: float) -> Tensor:
    """Symmetric InfoNCE with several right answers.

    Args:
        images: Unit vectors [n, d].
        texts: Unit vectors [m, d].
        same: bool [n, m], True where the text is right for the image.
        temperature: Divides the cosines.

    Returns:
        Scalar, the mean of both directions.
    """
    scores = images @ texts.T / temperature
    right = scores.masked_fill(~same, float("-inf"))
    by_image = torch.logsumexp(scores, 1) - torch.logsumexp(right, 1)
    by_text = torch.logsumexp(scores, 0) - torch.logsumexp(right, 0)
    return (by_image.mean() + by_text.mean()) / 2


def anchor_divergence(
    anchor: ClassAnchor, logits: Tensor, vectors: Tensor, temperature: float
) -> Tensor:
    """How far trained vectors moved the class posterior of the training-free ones.

    Args:
        anchor: The training-free projection.
        logits: Class logits [n, classes] of the images.
        vectors: Trained unit vectors [n, d].
        temperature: Divides the cosines with the class names.

    Returns:
        Scalar, the mean Kullback-Leibler divergence.
    """
    wanted = anchor.log_posterior(anchor(logits), temperature)
    found = anchor.log_posterior(vectors, temperature)
    return torch.nn.functional.kl_div(found, wanted, log_target=True, reduction="batchmean")
