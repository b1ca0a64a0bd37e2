"""The pilot library of RouterRetriever (arXiv 2409.02685, section 3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..experts.pilots import Pilots
from ..models.arrays import Floats
from .table import UtilityTable

TIE = 1e-6


def winners(table: UtilityTable) -> NDArray[np.int64]:
    """Label each query with the expert that serves it best.

    Args:
        table: utilities.

    Returns:
        int64 (n,), positions in ``table.encoders``; 0 where the base is strictly best, and -1
        where several encoders tie for the best.
    """
    best = table.ndcg.max(axis=0)
    tied = (table.ndcg >= best - TIE).sum(axis=0) > 1
    return np.where(tied, -1, table.ndcg.argmax(axis=0)).astype(np.int64)


def build_pilots(tables: Sequence[UtilityTable], *, fewest: int = 3) -> dict[str, Pilots]:
    """Make one centroid for each data set and winning expert.

    Args:
        tables: one a data set, of queries that no expert was trained on.
        fewest: groups of fewer queries give no pilot.

    Returns:
        The pilots of each expert; those that win nowhere have none.
    """
    found: dict[str, list[tuple[Floats, str, str]]] = {}
    for table in tables:
        best = winners(table)
        for row in range(1, len(table.encoders)):
            own = np.flatnonzero(best == row)
            if len(own) < fewest:
                continue
            states = table.states[own]
            pilot = unit(states.mean(axis=0, keepdims=True))[0]
            example = table.texts[own[int((states @ pilot).argmax())]]
            dataset = table.name.split("/")[0]
            found.setdefault(table.encoders[row], []).append((pilot, dataset, example))
    width = tables[0].states.shape[1]
    return {
        name: Pilots(
            np.stack([one[0] for one in found[name]]),
            tuple(one[1] for one in found[name]),
            tuple(one[2] for one in found[name]),
        )
        if name in found
        else Pilots.none(width)
        for name in tables[0].encoders[1:]
    }


def unit(rows: Floats) -> Floats:
    """Scale rows to unit norm.

    Args:
        rows: float32 (n, d).

    Returns:
        The same; zero rows stay zero.
    """
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(norm, 1e-12), np.float32)
