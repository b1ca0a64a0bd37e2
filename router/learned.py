"""Gates that learn from utilities: ridge, logistic, pairwise and softmax, all linear in the state.

A linear gate needs nothing new in the graph: its weight vector is one pilot, and its length and
bias are the slope and offset of the confidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..models.arrays import Floats
from .library import TIE, unit, winners
from .table import UtilityTable

Doubles = NDArray[np.float64]

_ROUNDS = 300


@dataclass(frozen=True)
class LinearGate:
    """Scores every expert by one direction of the centred state.

    Attributes:
        name: for reports.
        center: float32 (gate_dim,).
        weights: float32 (experts, gate_dim).
        bias: float32 (experts,).
    """

    name: str
    center: Floats
    weights: Floats
    bias: Floats

    def score(self, states: Floats) -> Floats:
        """Score every expert for every query.

        Args:
            states: float32 (n, gate_dim), unit norm.

        Returns:
            float32 (n, experts).
        """
        return np.asarray(unit(states - self.center) @ self.weights.T + self.bias, np.float32)


def fit_ridge(
    table: UtilityTable, center: Floats, *, penalty: float = 10.0, weights: Floats | None = None
) -> LinearGate:
    """Regress every expert's gain over the base on the state.

    Args:
        table: utilities.
        center: float32 (gate_dim,).
        penalty: of the squared weights.
        weights: float32 (n,), importance of every query; all alike when omitted.

    Returns:
        A gate whose score is the expected gain in nDCG@10.
    """
    x = unit(table.states - center).astype(np.float64)
    gain = table.gain.T.astype(np.float64)
    share = np.ones(len(x)) if weights is None else weights.astype(np.float64)
    share = share / share.mean()
    total = share.sum()
    mean_x, mean_y = share @ x / total, share @ gain / total
    spread = (x - mean_x) * share[:, None]
    gram = spread.T @ (x - mean_x) + penalty * np.eye(x.shape[1])
    solved = np.linalg.solve(gram, spread.T @ (gain - mean_y)).T
    return _gate("ridge", center, solved, mean_y - solved @ mean_x)


def fit_logistic(
    table: UtilityTable, center: Floats, *, penalty: float = 10.0, weights: Floats | None = None
) -> LinearGate:
    """Classify for every expert whether it beats the base; queries without a difference drop out.

    Args:
        table: utilities.
        center: float32 (gate_dim,).
        penalty: of the squared weights.
        weights: float32 (n,), importance of every query; all alike when omitted.

    Returns:
        A gate whose score is the log-odds of a gain.
    """
    x = _with_one(unit(table.states - center))
    share = np.ones(len(x)) if weights is None else weights.astype(np.float64)
    found = []
    for gain in table.gain:
        told = np.abs(gain) > TIE
        found.append(_newton(x[told], (gain[told] > 0).astype(np.float64), share[told], penalty))
    stacked = np.stack(found)
    return _gate("logistic", center, stacked[:, :-1], stacked[:, -1])


def fit_pairwise(
    table: UtilityTable, center: Floats, *, penalty: float = 10.0, weights: Floats | None = None
) -> LinearGate:
    """Learn to rank encoders, the base among them, from pairs of unequal utility (LTRR).

    Source: LTRR, arXiv 2506.13743. Pairs weigh as much as their utilities differ; the score is
    relative to the base's.

    Args:
        table: utilities.
        center: float32 (gate_dim,).
        penalty: of the squared weights.
        weights: float32 (n,), importance of every query; all alike when omitted.

    Returns:
        The gate.
    """
    x = _with_one(unit(table.states - center))
    share = np.ones(len(x)) if weights is None else weights.astype(np.float64)
    utilities = table.ndcg.T.astype(np.float64)
    margin = (utilities[:, :, None] - utilities[:, None, :]) * share[:, None, None]
    margin = np.maximum(margin, 0)

    def slope(w: Doubles) -> Doubles:
        scores = x @ w.T
        short = margin / (1 + np.exp(np.clip(scores[:, :, None] - scores[:, None, :], -30, 30)))
        push = short.sum(axis=2) - short.sum(axis=1)
        decay = w * penalty
        decay[:, -1] = 0
        found: Doubles = decay - push.T @ x
        return found

    w = _descend(slope, np.zeros((len(table.encoders), x.shape[1])), step=len(x) / 4)
    w = w[1:] - w[:1]
    return _gate("pairwise", center, w[:, :-1], w[:, -1])


def fit_softmax(
    table: UtilityTable, center: Floats, *, penalty: float = 10.0, weights: Floats | None = None
) -> LinearGate:
    """Classify which encoder is best; ties drop out.

    Args:
        table: utilities.
        center: float32 (gate_dim,).
        penalty: of the squared weights.
        weights: float32 (n,), importance of every query; all alike when omitted.

    Returns:
        A gate whose scores are log-odds against the base.
    """
    best = winners(table)
    told = best >= 0
    x = unit(table.states[told] - center)
    share = np.ones(len(table)) if weights is None else weights.astype(np.float64)
    w = fit_classes(x, best[told], len(table.encoders), share[told], penalty)
    w = w[1:] - w[:1]
    return _gate("classifier", center, w[:, :-1], w[:, -1])


def fit_classes(
    x: Floats, wanted: NDArray[np.int64], classes: int, share: Doubles, penalty: float
) -> Doubles:
    """Fit a softmax regression.

    Args:
        x: float32 (n, d), of at most unit norm.
        wanted: int64 (n,), class of every row.
        classes: number of classes.
        share: float64 (n,), importance of every row, mean 1.
        penalty: of the squared weights; the bias is free.

    Returns:
        float64 (classes, d + 1), the last column is the bias.
    """
    rows = _with_one(x)
    target = np.eye(classes)[wanted]

    def slope(w: Doubles) -> Doubles:
        logits = rows @ w.T
        logits -= logits.max(axis=1, keepdims=True)
        found = np.exp(logits)
        found /= found.sum(axis=1, keepdims=True)
        decay = w * penalty
        decay[:, -1] = 0
        total: Doubles = ((found - target) * share[:, None]).T @ rows + decay
        return total

    return _descend(slope, np.zeros((classes, rows.shape[1])), step=len(rows) / 2)


def _gate(name: str, center: Floats, weights: Doubles, bias: Doubles) -> LinearGate:
    return LinearGate(name, center, weights.astype(np.float32), bias.astype(np.float32))


def _with_one(x: Floats) -> Doubles:
    return np.concatenate([x, np.ones((len(x), 1), np.float32)], axis=1).astype(np.float64)


def _newton(x: Doubles, y: Doubles, share: Doubles, penalty: float) -> Doubles:
    """Fit a logistic regression without a penalty on the bias, which is the last column."""
    w = np.zeros(x.shape[1])
    decay = np.full(x.shape[1], penalty)
    decay[-1] = 1e-6
    for _ in range(30):
        found = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
        slope = x.T @ (share * (found - y)) + decay * w
        curve = (x * (share * found * (1 - found))[:, None]).T @ x + np.diag(decay)
        step = np.linalg.solve(curve, slope)
        w -= step
        if np.abs(step).max() < 1e-6:
            break
    return w


def _descend(slope: Callable[[Doubles], Doubles], start: Doubles, step: float) -> Doubles:
    """Minimise a smooth convex loss by accelerated descent (Nesterov)."""
    w, ahead = start, start.copy()
    for index in range(_ROUNDS):
        moved = ahead - slope(ahead) / step
        ahead = moved + index / (index + 3) * (moved - w)
        w = moved
    return w
