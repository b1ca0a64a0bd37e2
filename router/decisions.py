"""What a gate's scores come to: who serves each query, and what that is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..models.arrays import Floats
from .alternatives import Gate
from .calibrate import Platt, fit_platt, outcomes
from .table import UtilityTable

MARGIN = 0.01
"""A query is harmed or helped when its nDCG@10 differs from the base's by more than this."""


@dataclass(frozen=True)
class Choice:
    """Who serves each query.

    Attributes:
        encoder: int64 (n,), positions in the table's encoders; 0 is the base.
        weight: float32 (n,), share of the adapter's strength.
        confidence: float32 (n,), in the best expert.
    """

    encoder: NDArray[np.int64]
    weight: NDArray[np.float32]
    confidence: NDArray[np.float32]


@dataclass(frozen=True)
class CalibratedGate:
    """A gate with the probability that its choice beats the base.

    Attributes:
        gate: scores the experts.
        curves: of every expert, from its score to the probability.
        threshold: probability below which the base serves the query.
        ramp: width above the threshold over which the adapter's weight grows to its full strength.
    """

    gate: Gate
    curves: tuple[Platt, ...]
    threshold: float
    ramp: float = 1e-6

    def choose(self, table: UtilityTable) -> Choice:
        """Choose an encoder for every query.

        Args:
            table: the queries.

        Returns:
            The choice.
        """
        each = self.probabilities(table.states)
        confidence = each.max(axis=1)
        weight = np.clip((confidence - self.threshold) / self.ramp, 0, 1).astype(np.float32)
        chosen = np.where(weight > 0, each.argmax(axis=1) + 1, 0).astype(np.int64)
        return Choice(chosen, weight, confidence)

    def probabilities(self, states: Floats) -> Floats:
        """Tell how likely every expert is to beat the base.

        Args:
            states: float32 (n, gate_dim), unit norm.

        Returns:
            float32 (n, experts).
        """
        scores = self.gate.score(states)
        return np.stack(
            [curve.apply(scores[:, row]) for row, curve in enumerate(self.curves)], axis=1
        )


def calibrate(
    gate: Gate, dev: Sequence[UtilityTable], threshold: float = 0.5, *, common: bool = False
) -> CalibratedGate:
    """Fit the probability of every expert on dev queries.

    An expert that claims too much away from home gets a lower curve than one that keeps its word
    (an offset against hubs). Noise has no part in it: a curve that has to explain noise as well is
    too steep for real queries, and learned gates score noise low by themselves.

    Args:
        gate: scores the experts.
        dev: one table a set.
        threshold: of the result.
        common: fit one curve for all experts, on those that score best.

    Returns:
        The gate with its curves.
    """
    scores = [gate.score(table.states) for table in dev]
    experts = range(len(dev[0].encoders) - 1)
    if common:
        best = [score.argmax(axis=1) for score in scores]
        curves = [fit_platt(*outcomes(dev, scores, best))] * len(experts)
    else:
        own = [[np.full(len(table), expert) for table in dev] for expert in experts]
        curves = [fit_platt(*outcomes(dev, scores, chosen)) for chosen in own]
    return CalibratedGate(gate, tuple(curves), threshold)


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


def outcome(
    table: UtilityTable, chosen: NDArray[np.int64], weight: NDArray[np.float32] | None = None
) -> Outcome:
    """Look up what a choice is worth.

    Args:
        table: utilities.
        chosen: int64 (n,), positions in ``table.encoders``.
        weight: float32 (n,), share of the adapter's strength; full when omitted. What a weakened
            adapter is worth was not measured: it is taken to lie between base and expert.

    Returns:
        The outcome.
    """
    gain = table.ndcg[chosen, np.arange(len(table))] - table.ndcg[0]
    if weight is not None:
        gain = gain * weight
    own = table.ndcg[0] + gain
    return Outcome(
        float(own.mean()),
        float(gain.mean()),
        float((gain < -MARGIN).mean()),
        float((gain > MARGIN).mean()),
        float((chosen == 0).mean()),
    )
