"""Pilots and a query on a plane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..experts import ExpertPack
from ..models.arrays import Floats


@dataclass(frozen=True)
class PilotPoint:
    """A pilot on the map.

    Attributes:
        expert: whose it is.
        dataset: the set that it stands for.
        example: a query of that set.
        x: place on the map.
        y: likewise.
        similarity: cosine to the query in the full space; 0 without a query.
    """

    expert: str
    dataset: str
    example: str
    x: float
    y: float
    similarity: float = 0.0


@dataclass(frozen=True)
class PilotMap:
    """The two directions in which pilots differ most, and what lies where.

    Attributes:
        points: the pilots.
        query: place of the query; ``None`` without one.
        explained: share of the pilots' variance that the plane shows.
    """

    points: tuple[PilotPoint, ...]
    query: tuple[float, float] | None
    explained: float


def pilot_map(
    packs: Mapping[str, ExpertPack], center: Floats | None, state: Floats | None
) -> PilotMap:
    """Lay the pilots of all experts on a plane by their principal components.

    Args:
        packs: the experts.
        center: float32 (gate_dim,), subtracted by the gate; the pilots' mean when ``None``.
        state: float32 (gate_dim,), of the query; ``None`` or zero for no query.

    Returns:
        The map; empty when no expert has pilots.
    """
    owners = [(name, row) for name, pack in packs.items() for row in range(len(pack.pilots))]
    if not owners:
        return PilotMap((), None, 0.0)
    rows = np.concatenate([pack.pilots for pack in packs.values()])
    middle = rows.mean(axis=0) if center is None else center
    placed = _unit(rows - middle)
    offset = placed.mean(axis=0)
    axes, explained = _plane(placed - offset)
    places = (placed - offset) @ axes.T
    here = None
    near = np.zeros(len(rows), np.float32)
    if state is not None and bool(np.any(state)):
        direction = _unit((state - middle)[None])[0]
        near = placed @ direction
        spot = (direction - offset) @ axes.T
        here = float(spot[0]), float(spot[1])
    points = []
    for (name, row), place, similarity in zip(owners, places, near, strict=True):
        gate = packs[name].gate
        points.append(
            PilotPoint(
                expert=name,
                dataset=gate.datasets[row] if gate.datasets else "",
                example=gate.examples[row] if gate.examples else "",
                x=float(place[0]),
                y=float(place[1]),
                similarity=float(similarity),
            )
        )
    return PilotMap(tuple(points), here, explained)


def _plane(rows: Floats) -> tuple[Floats, float]:
    """Find the first two principal directions; rows are centred."""
    _, values, axes = np.linalg.svd(rows, full_matrices=False)
    found = np.zeros((2, rows.shape[1]), np.float32)
    count = min(2, len(axes))
    # The sign of a singular vector is arbitrary: fix it, so that the map never flips.
    for row in range(count):
        axis = axes[row]
        found[row] = axis * np.sign(axis[np.abs(axis).argmax()])
    total = float((values**2).sum())
    return found, float((values[:2] ** 2).sum()) / total if total else 0.0


def _unit(rows: Floats) -> Floats:
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(norm, 1e-12), np.float32)
