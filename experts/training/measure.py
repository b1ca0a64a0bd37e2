"""Measuring a tower on labelled queries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .evaluate import Metrics, evaluate
from .tasks import Probe
from .tower import TorchTower, encode_queries


def measure(
    tower: TorchTower, probes: Mapping[str, Probe], limit: int | None = None
) -> dict[str, Metrics]:
    """Measure the tower, with the adapter it carries.

    Args:
        tower: the tower.
        probes: labelled queries, by name.
        limit: look at no more than this many queries of each, evenly spread.

    Returns:
        Metrics by name.
    """
    found = {}
    for name, probe in probes.items():
        count = len(probe.queries.states)
        rows = np.arange(count)
        if limit is not None and limit < count:
            rows = np.linspace(0, count - 1, limit).astype(np.int64)
        vectors = encode_queries(tower, probe.queries.states, rows)
        labels = probe.queries.labels.select(rows.tolist())
        found[name] = evaluate(vectors, probe.documents, labels).mean()
    return found
