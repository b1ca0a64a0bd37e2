"""What a gate's scores come to: who serves each query, and what that is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .alternatives import Gate
from .calibrate import Platt, fit_platt, outcomes
from .table import UtilityTable

MARGIN = 0.01
"""A query is harmed or helped when its nDCG@10 differs from the base's by more than this."""


@dataclass(frozen=True)
class CalibratedGate:
    """A gate with the probability that its choice beats the base.

    Attributes:
        gate: scores the experts.
        curve: from the best score to the probability.
        threshold: probability below which the base serves the query.
    """

    gate: Gate
    curve: Platt
    threshold: float

    def choose(self, table: UtilityTable) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Choose an encoder for every query.

        Args:
            table: the queries.

        Returns:
            int64 (n,), positions in ``table.encoders``, and float32 (n,), confidence in the best
            expert.
        """
        scores = self.gate.score(table.states)
        confidence = self.curve.apply(scores.max(axis=1))
        chosen = np.where(confidence >= self.threshold, scores.argmax(axis=1) + 1, 0)
        return chosen.astype(np.int64), confidence


def calibrate(
    gate: Gate,
    dev: Sequence[UtilityTable],
    noise: Sequence[UtilityTable],
    threshold: float = 0.5,
) -> CalibratedGate:
    """Fit the probability on dev queries, and on noise, where no expert gains.

    Args:
        gate: scores the experts.
        dev: one table a set.
        noise: queries without an answer, a table a sort.
        threshold: of the result.

    Returns:
        The gate with its curve.
    """
    found, won, weights = outcomes(dev, [gate.score(table.states) for table in dev])
    silent = np.concatenate([gate.score(one.states).max(axis=1) for one in noise])
    # Noise weighs as much as two sets.
    share = np.full(len(silent), weights.sum() * 2 / len(dev) / len(silent), np.float32)
    curve = fit_platt(
        np.concatenate([found, silent]),
        np.concatenate([won, np.zeros(len(silent), np.bool_)]),
        np.concatenate([weights, share]),
    )
    return CalibratedGate(gate, curve, threshold)


@dataclass(frozen=True)
class Outcome:
    """What a choice of encoders is worth on one set.

    Attributes:
        ndcg: mean nDCG@10.
        gain: over the base.
        harmed: share of queries more than :data:`MARGIN` below the base.
        helped: share of queries more than :data:`MARGIN` above it.
        abstained: share of queries left to the base.
    """

    ndcg: float
    gain: float
    harmed: float
    helped: float
    abstained: float


def outcome(table: UtilityTable, chosen: NDArray[np.int64]) -> Outcome:
    """Look up what a choice is worth.

    Args:
        table: utilities.
        chosen: int64 (n,), positions in ``table.encoders``.

    Returns:
        The outcome.
    """
    own = table.ndcg[chosen, np.arange(len(table))]
    gain = own - table.ndcg[0]
    return Outcome(
        float(own.mean()),
        float(gain.mean()),
        float((gain < -MARGIN).mean()),
        float((gain > MARGIN).mean()),
        float((chosen == 0).mean()),
    )
