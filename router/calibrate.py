"""From scores to probabilities (Platt), and thresholds that are chosen on dev."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..models.arrays import Floats
from .library import TIE
from .table import UtilityTable


@dataclass(frozen=True)
class Platt:
    """A logistic curve from score to probability.

    Attributes:
        slope: of the score; never negative, so that the order stays.
        offset: added.
    """

    slope: float
    offset: float

    def apply(self, scores: Floats) -> Floats:
        """Turn scores into probabilities.

        Args:
            scores: float32, any shape.

        Returns:
            float32 of the same shape.
        """
        logits = np.clip(self.slope * scores + self.offset, -30, 30)
        return np.asarray(1 / (1 + np.exp(-logits)), np.float32)


def fit_platt(scores: Floats, outcomes: NDArray[np.bool_], weights: Floats | None = None) -> Platt:
    """Fit a logistic curve (Platt 1999), with his smoothed targets.

    Args:
        scores: float32 (n,).
        outcomes: bool (n,), whether the expert beat the base.
        weights: float32 (n,), importance; all alike when omitted.

    Returns:
        The curve.
    """
    share = np.ones(len(scores)) if weights is None else weights.astype(np.float64)
    positive, negative = float(share[outcomes].sum()), float(share[~outcomes].sum())
    high, low = (positive + 1) / (positive + 2), 1 / (negative + 2)
    target = np.where(outcomes, high, low)
    scale = float(scores.std()) or 1.0
    x = np.stack([scores / scale, np.ones(len(scores))], axis=1).astype(np.float64)
    w = np.zeros(2)
    for _ in range(50):
        found = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
        slope = x.T @ (share * (found - target))
        curve = (x * (share * found * (1 - found))[:, None]).T @ x + 1e-6 * np.eye(2)
        step = np.linalg.solve(curve, slope)
        w -= step
        if np.abs(step).max() < 1e-8:
            break
    return Platt(max(float(w[0]), 0.0) / scale, float(w[1]))


def outcomes(
    tables: Sequence[UtilityTable],
    scores: Sequence[Floats],
    chosen: Sequence[NDArray[np.int64]],
) -> tuple[Floats, NDArray[np.bool_], Floats]:
    """Ask of every chosen expert whether it beat the base; equal results say nothing.

    Args:
        tables: one a set; each set weighs the same.
        scores: float32 (n, experts) for every table.
        chosen: int64 (n,) for every table, the expert asked about.

    Returns:
        Scores of the chosen experts, whether each won, and weights.
    """
    found, won, weights = [], [], []
    for table, score, expert in zip(tables, scores, chosen, strict=True):
        gain = table.gain[expert, np.arange(len(table))]
        told = np.abs(gain) > TIE
        if told.any():
            found.append(score[told, expert[told]])
            won.append(gain[told] > 0)
            weights.append(np.full(told.sum(), 1 / told.sum(), np.float32))
    joined = np.concatenate(weights)
    return np.concatenate(found), np.concatenate(won), joined / joined.mean()
