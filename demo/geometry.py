"""Pilots and a query on a plane."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..experts import ExpertPack
from ..models.arrays import Floats

_PLANES = 16
_EPSILON = 1e-9


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


@dataclass(frozen=True, eq=False)
class PilotPlane:
    """The pilots of all experts, laid on a plane by their principal components.

    Attributes:
        still: the map without a query.
        middle: float32 (gate_dim,), what the gate subtracts.
        placed: float32 (pilots, gate_dim), unit rows.
        offset: float32 (gate_dim,), their mean.
        axes: float32 (2, gate_dim).
    """

    still: PilotMap
    middle: Floats
    placed: Floats
    offset: Floats
    axes: Floats

    @classmethod
    def of(cls, packs: Mapping[str, ExpertPack], center: Floats | None) -> PilotPlane | None:
        """Lay out the pilots.

        Args:
            packs: the experts.
            center: float32 (gate_dim,), subtracted by the gate; the pilots' mean when ``None``.

        Returns:
            The plane; ``None`` when no expert has pilots.
        """
        owners = [(name, row) for name, pack in packs.items() for row in range(len(pack.pilots))]
        if not owners:
            return None
        rows = np.concatenate([pack.pilots for pack in packs.values()])
        middle = rows.mean(axis=0) if center is None else center
        placed = _unit(rows - middle)
        offset = placed.mean(axis=0)
        axes, explained = _plane(placed - offset)
        points = []
        for (name, row), place in zip(owners, (placed - offset) @ axes.T, strict=True):
            gate = packs[name].gate
            dataset = gate.datasets[row] if gate.datasets else ""
            example = gate.examples[row] if gate.examples else ""
            points.append(PilotPoint(name, dataset, example, float(place[0]), float(place[1])))
        return cls(PilotMap(tuple(points), None, explained), middle, placed, offset, axes)

    def place(self, state: Floats | None) -> PilotMap:
        """Put a query among the pilots.

        Args:
            state: float32 (gate_dim,), of the query; ``None`` or zero for no query.

        Returns:
            The map.
        """
        if state is None or not bool(np.any(state)):
            return self.still
        direction = _unit((state - self.middle)[None])[0]
        near = self.placed @ direction
        spot = (direction - self.offset) @ self.axes.T
        points = tuple(
            replace(point, similarity=float(similarity))
            for point, similarity in zip(self.still.points, near, strict=True)
        )
        return PilotMap(points, (float(spot[0]), float(spot[1])), self.still.explained)


class PlaneCache:
    """Remembers planes: laying one out costs more than the query itself."""

    def __init__(self) -> None:
        self._kept: list[tuple[Mapping[str, ExpertPack], PilotPlane | None]] = []
        self._lock = threading.Lock()

    def place(
        self, packs: Mapping[str, ExpertPack], center: Floats | None, state: Floats | None
    ) -> PilotMap:
        """Put a query among the pilots of some experts.

        Args:
            packs: the experts; the same mapping has the same content.
            center: float32 (gate_dim,), subtracted by the gate.
            state: float32 (gate_dim,), of the query; ``None`` for no query.

        Returns:
            The map; empty when no expert has pilots.
        """
        with self._lock:
            known = [plane for kept, plane in self._kept if kept is packs]
            plane = known[0] if known else PilotPlane.of(packs, center)
            if not known:
                self._kept = [*self._kept, (packs, plane)][-_PLANES:]
        return PilotMap((), None, 0.0) if plane is None else plane.place(state)


def _plane(rows: Floats) -> tuple[Floats, float]:
    """Find the first two principal directions; rows are centred."""
    # Through the small matrix of products: the decomposition of the rows took a second under load.
    values, columns = np.linalg.eigh((rows @ rows.T).astype(np.float64))
    found = np.zeros((2, rows.shape[1]), np.float32)
    for row, at in enumerate(np.argsort(values)[::-1][:2]):
        axis = rows.T @ columns[:, at].astype(np.float32)
        length = float(np.linalg.norm(axis))
        if length > _EPSILON:
            # The sign of an eigenvector is arbitrary: fix it, so that the map never flips.
            found[row] = axis / length * np.sign(axis[np.abs(axis).argmax()])
    total = float(np.maximum(values, 0).sum())
    best = float(np.sort(values)[::-1][:2].sum())
    return found, best / total if total > _EPSILON else 0.0


def _unit(rows: Floats) -> Floats:
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(norm, 1e-12), np.float32)
