"""From the loaded packs to the gate's inputs in the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..experts import ExpertPack
from ..experts.pilots import Pilots
from ..models.arrays import Floats, GateArrays
from .library import unit
from .settings import GateSettings


def assemble(
    settings: GateSettings, packs: Mapping[str, ExpertPack], names: Sequence[str]
) -> GateArrays:
    """Stack what the packs tell the gate.

    An expert with a learned direction is scored along it, one with pilots only by its pilots, and
    one with neither is never chosen. Rows of one expert depend on its pack alone.

    Args:
        settings: of the model.
        packs: by name.
        names: expert of every row of the bank; the first is ``"base"``.

    Returns:
        The arrays.
    """
    width = len(settings.center)
    rows = [np.zeros((0, width), np.float32)]
    owners: list[int] = []
    experts = np.tile(np.array([0.0, -1e4, 1.0], np.float32), (len(names), 1))
    for row, name in enumerate(names):
        if name not in packs:
            continue
        gate = packs[name].gate
        own = centered(gate, settings.center) if gate.direction is None else gate.direction[None]
        rows.append(own)
        owners += [row] * len(own)
        slope, offset = gate.calibration or (settings.slope, settings.offset)
        experts[row] = slope, offset, packs[name].card.strength
    if not owners:
        return GateArrays.closed(width, len(names))
    return GateArrays(
        pilots=np.concatenate(rows),
        owners=np.array(owners, np.int64),
        center=settings.center,
        experts=experts,
        settings=np.array([settings.temperature, settings.threshold, settings.ramp], np.float32),
    )


def centered(pilots: Pilots, center: Floats) -> Floats:
    """Move pilots, which packs store as plain states, to where the gate compares them.

    Args:
        pilots: of one expert.
        center: float32 (gate_dim,).

    Returns:
        float32 (m, gate_dim), unit norm.
    """
    return unit(pilots.vectors - center)
