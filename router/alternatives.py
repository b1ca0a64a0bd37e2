"""Ways to score experts, behind one protocol, so that they can be measured side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..experts import ExpertPack
from ..experts.pilots import Pilots
from ..models.arrays import Floats, GateArrays
from .assemble import centered
from .gate import gate_scores
from .library import unit
from .table import UtilityTable

MEAN, MAXIMUM = 1e3, 1e-3
"""Temperatures of the pooling at which it is the mean and the maximum."""


class Gate(Protocol):
    """Scores experts."""

    @property
    def name(self) -> str:
        """For reports."""

    def score(self, states: Floats) -> Floats:
        """Score every expert for every query.

        Args:
            states: float32 (n, gate_dim), unit norm.

        Returns:
            float32 (n, experts), higher is better.
        """


@dataclass(frozen=True)
class PilotGate:
    """Compares the state with an expert's pilots, as the graph does.

    Attributes:
        name: for reports.
        center: float32 (gate_dim,); zeros for the paper's own score.
        pilots: by expert, in order.
        temperature: :data:`MEAN` (RouterRetriever, arXiv 2409.02685), :data:`MAXIMUM` (the code
            published with it), or between.
    """

    name: str
    center: Floats
    pilots: Mapping[str, Pilots]
    temperature: float

    def score(self, states: Floats) -> Floats:
        """See :class:`Gate`.

        Args:
            states: float32 (n, gate_dim), unit norm.

        Returns:
            float32 (n, experts).
        """
        own = list(self.pilots.values())
        owners = [row for row, one in enumerate(own) for _ in one.vectors]
        arrays = GateArrays(
            np.concatenate([centered(one, self.center) for one in own]),
            np.array(owners, np.int64),
            self.center,
            np.zeros((len(own), 3), np.float32),
            np.array([self.temperature, 0.5, 1.0], np.float32),
        )
        return gate_scores(states, arrays)


@dataclass(frozen=True)
class DatasetGate:
    """Finds the nearest training set and takes the expert that is best on it.

    Attributes:
        name: for reports.
        center: float32 (gate_dim,).
        centroids: float32 (sets, gate_dim), unit norm.
        gains: float32 (sets, experts), mean gain over the base.
    """

    name: str
    center: Floats
    centroids: Floats
    gains: Floats

    @classmethod
    def fit(cls, tables: Sequence[UtilityTable], center: Floats) -> DatasetGate:
        """Average every set.

        Args:
            tables: one a set.
            center: float32 (gate_dim,).

        Returns:
            The gate.
        """
        means = [unit(table.states - center).mean(axis=0) for table in tables]
        gains = [table.gain.mean(axis=1) for table in tables]
        return cls("dataset router", center, unit(np.stack(means)), np.stack(gains))

    def score(self, states: Floats) -> Floats:
        """See :class:`Gate`.

        Args:
            states: float32 (n, gate_dim), unit norm.

        Returns:
            float32 (n, experts).
        """
        nearest = (unit(states - self.center) @ self.centroids.T).argmax(axis=1)
        return np.asarray(self.gains[nearest], np.float32)


@dataclass(frozen=True)
class ArrowGate:
    """Scores experts by their weights alone (Arrow, arXiv 2405.11157).

    The state is compared with the direction that an adapter's first layers answer to most. It
    needs no data, so that it can serve packs without pilots.

    Attributes:
        name: for reports.
        directions: by expert, float32 (layers, gate_dim), unit norm.
    """

    name: str
    directions: Sequence[Floats]

    @classmethod
    def fit(
        cls, packs: Sequence[ExpertPack], layers: Sequence[str], common: ExpertPack | None = None
    ) -> ArrowGate:
        """Take singular vectors.

        Args:
            packs: the experts.
            layers: names of layers that read the gate's state.
            common: an expert whose update is taken off the others' first, so that what all share
                does not decide.

        Returns:
            The gate.
        """
        directions = []
        for pack in packs:
            rows = []
            for layer in layers:
                update = pack.b[layer].T @ pack.a[layer]
                if common is not None and pack is not common:
                    update = update - common.b[layer].T @ common.a[layer]
                rows.append(np.linalg.svd(update, full_matrices=False)[2][0])
            directions.append(np.stack(rows).astype(np.float32))
        return cls("arrow" if common is None else "arrow, less general", directions)

    def score(self, states: Floats) -> Floats:
        """See :class:`Gate`.

        Args:
            states: float32 (n, gate_dim), unit norm.

        Returns:
            float32 (n, experts).
        """
        found = [np.abs(states @ rows.T).mean(axis=1) for rows in self.directions]
        return np.stack(found, axis=1).astype(np.float32)


@dataclass(frozen=True)
class StaticGate:
    """Always takes the same expert.

    Attributes:
        name: for reports.
        expert: its position.
        experts: number of experts.
    """

    name: str
    expert: int
    experts: int

    def score(self, states: Floats) -> Floats:
        """See :class:`Gate`.

        Args:
            states: float32 (n, gate_dim), unit norm.

        Returns:
            float32 (n, experts).
        """
        row = np.eye(self.experts, dtype=np.float32)[self.expert]
        return np.tile(row, (len(states), 1))


def oracle(table: UtilityTable) -> NDArray[np.int64]:
    """Choose the best encoder for every query, knowing the outcome.

    Args:
        table: utilities.

    Returns:
        int64 (n,), positions in ``table.encoders``; the base where nothing beats it.
    """
    return np.asarray(table.ndcg.argmax(axis=0), np.int64)
