"""What the gate inside the text graph computes, in NumPy.

The reference that the graph is tested against, and the means to study other settings of the gate
on stored states without running the model again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..models.arrays import Floats, GateArrays

ABSENT = np.float32(-1e4)
"""Score of an expert without pilots."""


@dataclass(frozen=True)
class GateDecision:
    """What the gate says of a batch.

    Attributes:
        experts: int64 (n, k), bank rows, best first; 0 where the gate abstains.
        weights: float32 (n, k), strengths of their adapters; 0 where the gate abstains.
        confidence: float32 (n, experts), probability that the expert beats the base.
        scores: float32 (n, experts).
    """

    experts: NDArray[np.int64]
    weights: Floats
    confidence: Floats
    scores: Floats


def gate_scores(states: Floats, gate: GateArrays) -> Floats:
    """Score every expert for every query.

    The log-mean-exp of the cosines to an expert's pilots: their mean as the temperature grows
    (RouterRetriever, arXiv 2409.02685, section 3), their maximum as it goes to 0 (the code
    published with that paper).

    Args:
        states: float32 (n, gate_dim), unit norm.
        gate: the gate's arrays.

    Returns:
        float32 (n, experts).
    """
    temperature = gate.settings[0]
    similarity = _unit(states - gate.center) @ gate.pilots.T
    scores = np.full((len(states), len(gate.experts)), ABSENT, np.float32)
    for expert in np.unique(gate.owners):
        own = similarity[:, gate.owners == expert]
        peak = own.max(axis=1, keepdims=True)
        mean = np.exp((own - peak) / temperature).mean(axis=1)
        scores[:, expert] = peak[:, 0] + temperature * np.log(np.maximum(mean, 1e-30))
    return scores


def decide(states: Floats, gate: GateArrays, k: int = 1) -> GateDecision:
    """Choose experts, or abstain.

    Args:
        states: float32 (n, gate_dim), unit norm.
        gate: the gate's arrays.
        k: experts a query.

    Returns:
        The decision. An adapter's weight rises from 0 at the threshold to its full strength one
        ramp width above it.
    """
    scores = gate_scores(states, gate)
    slope, offset, strength = gate.experts.T
    with np.errstate(over="ignore"):
        confidence = (1 / (1 + np.exp(-(scores * slope + offset)))).astype(np.float32)
    order = np.argsort(-confidence, axis=1, kind="stable")[:, :k]
    best = np.take_along_axis(confidence, order, axis=1)
    ramp = np.clip((best - gate.settings[1]) / gate.settings[2], 0, 1)
    weights = (ramp * strength[order]).astype(np.float32)
    return GateDecision(np.where(weights > 0, order, 0), weights, confidence, scores)


def _unit(rows: Floats) -> Floats:
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(norm, 1e-12), dtype=np.float32)
