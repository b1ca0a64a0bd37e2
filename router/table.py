"""What every encoder is worth for every query: the raw material of the gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..models.arrays import Floats

BASE = "base"


@dataclass(frozen=True)
class UtilityTable:
    """Queries of one split, each encoded by the base and by every expert.

    Attributes:
        name: of the split, ``set/split``.
        encoders: names; the first is ``"base"``.
        texts: the n queries.
        states: float32 (n, gate_dim), unit norm, what the gate sees.
        ndcg: float32 (encoders, n), nDCG@10 of each encoder for each query.
    """

    name: str
    encoders: tuple[str, ...]
    texts: tuple[str, ...]
    states: Floats
    ndcg: Floats

    def __post_init__(self) -> None:
        if self.encoders[:1] != (BASE,):
            raise InputError(f"the first encoder of a utility table is {BASE!r}")
        if self.ndcg.shape != (len(self.encoders), len(self.texts)):
            raise InputError(
                f"utilities have shape {self.ndcg.shape}, not "
                f"{(len(self.encoders), len(self.texts))}"
            )

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def gain(self) -> Floats:
        """float32 (experts, n): nDCG@10 of each expert minus the base's."""
        return np.asarray(self.ndcg[1:] - self.ndcg[:1], np.float32)

    def select(self, rows: NDArray[np.int64]) -> UtilityTable:
        """Keep some queries.

        Args:
            rows: their positions.

        Returns:
            A table of those.
        """
        texts = tuple(self.texts[row] for row in rows)
        return UtilityTable(self.name, self.encoders, texts, self.states[rows], self.ndcg[:, rows])

    def write(self, path: Path) -> None:
        """Store as npz, without pickle.

        Args:
            path: the file.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:
            np.savez_compressed(
                stream,
                name=np.array(self.name),
                encoders=np.array(self.encoders),
                texts=np.array(self.texts),
                states=self.states.astype(np.float16),
                ndcg=self.ndcg,
            )

    @classmethod
    def read(cls, path: Path) -> UtilityTable:
        """Read what :meth:`write` stored.

        Args:
            path: the file.

        Returns:
            The table.
        """
        with np.load(path, allow_pickle=False) as file:
            return cls(
                str(file["name"]),
                tuple(str(name) for name in file["encoders"]),
                tuple(str(text) for text in file["texts"]),
                file["states"].astype(np.float32),
                file["ndcg"].astype(np.float32),
            )


def join(tables: Sequence[UtilityTable]) -> UtilityTable:
    """Lay tables of the same encoders end to end.

    Args:
        tables: at least one.

    Returns:
        One table.

    Raises:
        InputError: when the encoders differ.
    """
    encoders = tables[0].encoders
    if any(table.encoders != encoders for table in tables):
        raise InputError("the tables were measured with different encoders; measure them again")
    return UtilityTable(
        "+".join(table.name for table in tables),
        encoders,
        tuple(text for table in tables for text in table.texts),
        np.concatenate([table.states for table in tables]),
        np.concatenate([table.ndcg for table in tables], axis=1),
    )
