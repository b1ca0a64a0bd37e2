"""Every gate that the default was chosen from, fitted on the same queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..experts import ExpertPack
from ..models.arrays import Floats
from .alternatives import MAXIMUM, MEAN, ArrowGate, DatasetGate, Gate, PilotGate, StaticGate
from .learned import fit_logistic, fit_pairwise, fit_ridge, fit_softmax
from .library import build_pilots
from .table import UtilityTable, join

PENALTY = 10.0
"""Of the learned gates' squared weights; chosen on dev."""

_NOISE_GAIN = -0.05
"""What an expert is said to lose on noise, so that a learned gate keeps away from it."""


@dataclass(frozen=True)
class Lessons:
    """What gates are fitted on.

    Attributes:
        tables: one a data set, of training queries that no expert was trained on.
        noise: queries that no expert can help with, a table a sort.
        center: float32 (gate_dim,), the mean of the sets' mean states.
    """

    tables: Sequence[UtilityTable]
    noise: Sequence[UtilityTable]
    center: Floats

    @classmethod
    def of(cls, tables: Sequence[UtilityTable], noise: Sequence[UtilityTable]) -> Lessons:
        """Find the center.

        Args:
            tables: one a data set.
            noise: queries that no expert can help with, a table a sort.

        Returns:
            The lessons.
        """
        center = np.mean([table.states.mean(axis=0) for table in tables], axis=0)
        return cls(tables, noise, center.astype(np.float32))

    def joined(self) -> tuple[UtilityTable, Floats]:
        """Lay all tables end to end.

        Returns:
            One table, and float32 (n,) weights under which a set counts by the root of its size.
        """
        parts = [*self.tables, *(_silent(one) for one in self.noise)]
        weights = [np.full(len(part), len(part) ** -0.5, np.float32) for part in parts]
        joint = np.concatenate(weights)
        return join(parts), joint / joint.mean()


def _silent(noise: UtilityTable) -> UtilityTable:
    """Noise has no right answer, so its utilities are set: the base 0, every expert a loss."""
    ndcg = np.full(noise.ndcg.shape, _NOISE_GAIN, np.float32)
    ndcg[0] = 0
    return replace(noise, ndcg=ndcg)


def pilot_gates(lessons: Lessons) -> list[Gate]:
    """Build the pilot library, and score it in the paper's way, the code's way, and centred.

    Args:
        lessons: what to fit on.

    Returns:
        Three gates.
    """
    pilots = build_pilots(lessons.tables)
    nowhere = np.zeros_like(lessons.center)
    return [
        PilotGate("mean (paper)", nowhere, pilots, MEAN),
        PilotGate("max (published code)", nowhere, pilots, MAXIMUM),
        PilotGate("centred max", lessons.center, pilots, MAXIMUM),
    ]


def learned_gates(lessons: Lessons, penalty: float = PENALTY) -> list[Gate]:
    """Fit the gates that learn from utilities.

    Args:
        lessons: what to fit on.
        penalty: of the squared weights.

    Returns:
        Four gates.
    """
    table, weights = lessons.joined()
    return [
        fit(table, lessons.center, penalty=penalty, weights=weights)
        for fit in (fit_ridge, fit_logistic, fit_pairwise, fit_softmax)
    ]


def all_gates(
    lessons: Lessons, packs: Mapping[str, ExpertPack], layers: Sequence[str]
) -> list[Gate]:
    """Fit every gate.

    Args:
        lessons: what to fit on.
        packs: the experts by name, as the tables name them.
        layers: names of the layers that read the gate's state.

    Returns:
        The gates.
    """
    names = lessons.tables[0].encoders[1:]
    own = [packs[name] for name in names]
    static: list[Gate] = [
        StaticGate(f"always {name}", row, len(names)) for row, name in enumerate(names)
    ]
    arrows: list[Gate] = [ArrowGate.fit(own, layers)]
    if "general" in packs:
        arrows.append(ArrowGate.fit(own, layers, packs["general"]))
    dataset: Gate = DatasetGate.fit(lessons.tables, lessons.center)
    return [*pilot_gates(lessons), *learned_gates(lessons), dataset, *arrows, *static]
