"""What a store knows about the sources that its documents were cut from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .filters import isin
from .queries import scan

if TYPE_CHECKING:
    from lancedb.table import Table


@dataclass(frozen=True)
class SourceState:
    """What the store holds of a source.

    Attributes:
        digest: of the source's content; empty when its documents come from different versions.
        documents: number of documents held.
        complete: False when documents are missing or outdated, as after an interrupted run.
    """

    digest: str
    documents: int
    complete: bool


@dataclass(frozen=True)
class StoredPart:
    """A document that the store holds, without its text.

    Attributes:
        id: of the document.
        source: that it was cut from.
        digest: of the source at that time.
        parts: number of documents in the source at that time.
        part: position of this one, from 0.
        content: hash of what was embedded.
        vector: float32 (dim,).
    """

    id: str
    source: str
    digest: str
    parts: int
    part: int
    content: str
    vector: NDArray[np.float32]


def source_states(table: Table) -> dict[str, SourceState]:
    """Read the state of every source, in one scan.

    Args:
        table: the open table.

    Returns:
        By source.
    """
    columns = scan(table, ["source", "digest", "parts"])
    # Versions of a source differ in digest, or in number of parts when cut differently.
    groups = columns.group_by("source").aggregate(
        [
            ("digest", "min"),
            ("digest", "max"),
            ("parts", "min"),
            ("parts", "max"),
            ([], "count_all"),
        ]
    )
    states = {}
    for group in groups.to_pylist():
        uniform = group["digest_min"] == group["digest_max"]
        full = group["parts_min"] == group["parts_max"] == group["count_all"]
        digest = group["digest_min"] if uniform else ""
        states[group["source"]] = SourceState(digest, group["count_all"], uniform and full)
    return states


def parts_of(table: Table, sources: Collection[str], dim: int) -> list[StoredPart]:
    """Read the documents of sources, with vectors and without text.

    Args:
        table: the open table.
        sources: files or records.
        dim: width of a vector.

    Returns:
        Their documents.
    """
    names = ["id", "source", "digest", "parts", "part", "content"]
    found = scan(table, [*names, "vector"], isin("source", sources)).combine_chunks()
    vectors = found["vector"].combine_chunks().flatten().to_numpy().reshape(-1, dim)
    records = found.select(names).to_pylist()
    return [StoredPart(**record, vector=vectors[row]) for row, record in enumerate(records)]


def owners(table: Table, ids: Collection[str]) -> dict[str, str]:
    """Read which sources documents were cut from.

    Args:
        table: the open table.
        ids: of documents.

    Returns:
        Source by id, of those that the table holds.
    """
    found = scan(table, ["id", "source"], isin("id", ids))
    return dict(zip(found["id"].to_pylist(), found["source"].to_pylist(), strict=True))
