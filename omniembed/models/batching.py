"""Batches by token budget: rows of similar length together, order restored afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

TOKEN_BUDGET = 512
"""Padded tokens a batch: what one thread works through without leaving its cache."""

_SMALLEST_SHARE = 128
"""Padded tokens below which splitting a batch among threads costs more than it saves."""


def batches(lengths: Sequence[int], *, workers: int = 1) -> list[list[int]]:
    """Group rows so that no batch exceeds the token budget once padded.

    Args:
        lengths: tokens of every row.
        workers: threads to share the batches among.

    Returns:
        Row indices, rows of similar length together, longest first, so that a lack of memory
        shows at once. A row longer than the budget forms a batch of its own.
    """
    share = sum(lengths) // workers
    budget = min(TOKEN_BUDGET, max(share, _SMALLEST_SHARE))
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    grouped: list[list[int]] = []
    for row in order:
        if grouped and lengths[grouped[-1][0]] * (len(grouped[-1]) + 1) <= budget:
            grouped[-1].append(row)
        else:
            grouped.append([row])
    return grouped


def pad(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lay rows of token ids side by side.

    Args:
        rows: token ids.

    Returns:
        Ids and mask, int64 (n, longest); padding is 0 in both.
    """
    longest = max(map(len, rows))
    ids = np.zeros((len(rows), longest), np.int64)
    mask = np.zeros_like(ids)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
        mask[index, : len(row)] = 1
    return ids, mask
