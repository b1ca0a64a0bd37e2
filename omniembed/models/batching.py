"""Batches by token budget: rows of similar length together, order restored afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

TOKEN_BUDGET = 4096
"""Padded tokens a batch. Memory grows with it; beyond this, speed hardly does."""


def batches(lengths: Sequence[int], budget: int = TOKEN_BUDGET) -> Iterator[list[int]]:
    """Group rows so that no batch exceeds the budget once padded.

    Args:
        lengths: tokens of every row.
        budget: padded tokens a batch; a longer row forms a batch of its own.

    Yields:
        Row indices, longest rows first, so that a lack of memory shows at once.
    """
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    batch: list[int] = []
    for row in order:
        if batch and lengths[batch[0]] * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


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
