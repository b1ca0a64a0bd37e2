"""Bootstrap intervals and calibration error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


def bootstrap(
    sets: Sequence[Doubles], *, draws: int = 1000, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Estimate the interval of a mean over sets, each set counting once.

    Queries are drawn again within every set (percentile bootstrap).

    Args:
        sets: values of the queries of each set.
        draws: number of resamples.
        level: of the interval.
        seed: of the draws.

    Returns:
        Its ends.
    """
    random = np.random.default_rng(seed)
    total = np.zeros(draws)
    for values in sets:
        rows = random.integers(len(values), size=(draws, len(values)))
        total += values[rows].mean(axis=1)
    low, high = np.quantile(total / len(sets), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def calibration_error(
    confidence: Sequence[Doubles], won: Sequence[NDArray[np.bool_]], bins: int = 10
) -> float:
    """Measure the expected calibration error, over bins of equal mass.

    Args:
        confidence: of the queries of each set, in [0, 1]; each set weighs the same.
        won: whether what the confidence speaks of came true.
        bins: their number.

    Returns:
        The error; 0 when there is no query.
    """
    kept = [at for at, values in enumerate(confidence) if len(values)]
    if not kept:
        return 0.0
    sure = np.concatenate([confidence[at] for at in kept])
    true = np.concatenate([won[at] for at in kept])
    share = np.concatenate([np.full(len(won[at]), 1 / len(won[at]) / len(kept)) for at in kept])
    order = np.argsort(sure, kind="stable")
    place = np.minimum((np.cumsum(share[order]) * bins).astype(int), bins - 1)
    gaps = np.bincount(place, share[order] * (sure[order] - true[order]), minlength=bins)
    return float(np.abs(gaps).sum())
