"""Contrastive and distillation losses over a shared list of candidate documents."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax, softmax


def info_nce(scores: Tensor, target: Tensor, ignored: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of the positive among the candidates.

    Args:
        scores: float (n, c), cosine similarities.
        target: int64 (n,), column of each row's positive.
        ignored: bool (n, c), candidates that are no evidence against a row: its other positives
            and near copies of its positive. A target is never ignored.
        temperature: softmax temperature.

    Returns:
        Mean loss, a scalar.
    """
    ignored = ignored.scatter(1, target.unsqueeze(1), False)
    return cross_entropy((scores / temperature).masked_fill(ignored, -torch.inf), target)


def listwise_distillation(
    scores: Tensor, teacher: Tensor, temperature: float, teacher_temperature: float = 1.0
) -> Tensor:
    """Kullback-Leibler divergence from a teacher's ranking of the same candidates.

    Args:
        scores: float (n, c), cosine similarities of the student.
        teacher: float (n, c), scores on any scale; NaN where the teacher gave none.
        temperature: of the student's softmax.
        teacher_temperature: of the teacher's softmax.

    Returns:
        Mean over the rows with at least two teacher scores; 0 when there is none.
    """
    known = ~teacher.isnan()
    rows = known.sum(dim=1) > 1
    if not bool(rows.any()):
        return scores.sum() * 0.0
    known = known[rows]
    # A large negative number rather than -inf: 0 x -inf is NaN in the divergence.
    hidden = torch.finfo(scores.dtype).min / 4
    student = log_softmax((scores[rows] / temperature).masked_fill(~known, hidden), dim=1)
    wanted = softmax(
        (teacher[rows].nan_to_num() / teacher_temperature).masked_fill(~known, hidden), dim=1
    )
    return kl_div(student, wanted, reduction="batchmean")


def drift(vectors: Tensor, base: Tensor) -> Tensor:
    """Mean distance of query vectors from those of the base.

    Args:
        vectors: float (n, dim), unit norm.
        base: float (n, dim), unit norm.

    Returns:
        Mean of ``1 - cosine``, a scalar.
    """
    return 1.0 - (vectors * base).sum(dim=1).mean()
