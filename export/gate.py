"""The gate as traced into the text graph. ``omniembed.router`` holds the NumPy reference."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

ABSENT = -1e4
"""Score of an expert without pilots: below any cosine, finite so that it survives arithmetic."""


@dataclass
class GateInputs:
    """Arrays that steer the gate; all are inputs of the graph.

    Attributes:
        pilots: float32 (m, d), one row a pilot embedding.
        owners: int64 (m,), the bank row that each pilot speaks for.
        center: float32 (d,), subtracted from the state before comparing.
        experts: float32 (e, 3): slope and offset of the confidence, strength of the adapter.
        settings: float32 (3,): pooling temperature, abstention threshold, width of the ramp above
            the threshold over which the adapter's weight rises from 0 to its strength.
    """

    pilots: Tensor
    owners: Tensor
    center: Tensor
    experts: Tensor
    settings: Tensor


def gate_scores(state: Tensor, gate: GateInputs) -> Tensor:
    """Score every expert for every query.

    An expert's score is the log-mean-exp of the cosines to its pilots: the mean as the
    temperature grows (RouterRetriever, arXiv 2409.02685, section 3), the maximum as it
    goes to 0 (that paper's published code).

    Args:
        state: float32 (n, d), unit norm.
        gate: the gate's arrays.

    Returns:
        float32 (n, e).
    """
    temperature = gate.settings[0]
    similarity = normalize(state - gate.center, dim=-1) @ gate.pilots.T
    owned = gate.owners.unsqueeze(0) == torch.arange(gate.experts.shape[0]).unsqueeze(1)
    masked = torch.where(owned.unsqueeze(0), similarity.unsqueeze(1), ABSENT)
    peak = masked.amax(dim=-1)
    mass = torch.exp((masked - peak.unsqueeze(-1)) / temperature) * owned.unsqueeze(0)
    count = owned.sum(dim=-1).clamp(min=1)
    pooled = peak + temperature * torch.log((mass.sum(dim=-1) / count).clamp(min=1e-30))
    return torch.where(owned.any(dim=-1).unsqueeze(0), pooled, ABSENT)


def choose(scores: Tensor, gate: GateInputs, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Turn scores into experts, weights and confidences.

    Args:
        scores: float32 (n, e).
        gate: the gate's arrays.
        k: adapters a query.

    Returns:
        expert int64 (n, k), weight float32 (n, k), confidence float32 (n, e). Below the
        threshold the expert is 0 (the base) with weight 0.
    """
    slope, offset, strength = gate.experts.unbind(dim=1)
    confidence = torch.sigmoid(scores * slope + offset)
    best, expert = torch.topk(confidence, k, dim=-1)
    ramp = ((best - gate.settings[1]) / gate.settings[2]).clamp(0.0, 1.0)
    weight = ramp * strength[expert]
    return torch.where(weight > 0, expert, 0), weight, confidence
