"""What a store holds and how it is doing."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .policy import index_on, statistics_of
from .schema import TABLE, read_base

if TYPE_CHECKING:
    from lancedb.table import Table


@dataclass(frozen=True)
class StoreInfo:
    """State of a store.

    Attributes:
        uri: where it lies.
        rows: number of documents.
        kinds: number of documents by kind.
        languages: number of documents by language, of those that name one.
        sources: number of files and records that the documents were cut from.
        model: name of the base that made the vectors.
        fingerprint: of that base.
        dim: width of a vector.
        bytes: size on disk with all kept versions; in an object store, of the current version.
        fragments: number of data files' fragments; maintenance merges them.
        version: number of the table version; every write makes a new one.
        vector_index: type of the vector index, or ``"none"`` where search is exact.
        unindexed_vectors: documents outside the vector index, which are compared one by one.
        unindexed_words: documents outside the word index, which are searched one by one.
    """

    uri: str
    rows: int
    kinds: dict[str, int]
    languages: dict[str, int]
    sources: int
    model: str
    fingerprint: str
    dim: int
    bytes: int
    fragments: int
    version: int
    vector_index: str
    unindexed_vectors: int
    unindexed_words: int


def describe(table: Table, uri: str) -> StoreInfo:
    """Collect the state of a table.

    Args:
        table: the open table.
        uri: of the store.

    Returns:
        Its state.
    """
    columns = table.search().select(["kind", "language", "source"]).to_arrow()
    statistics = statistics_of(table)
    base = read_base(table.schema, uri)
    vectors, words = index_on(table, "vector"), index_on(table, "words")
    rows = columns.num_rows
    return StoreInfo(
        uri=uri,
        rows=rows,
        kinds=dict(sorted(Counter(columns["kind"].to_pylist()).items())),
        languages={
            name: count
            for name, count in sorted(Counter(columns["language"].to_pylist()).items())
            if name
        },
        sources=len(columns["source"].unique()),
        model=base.model,
        fingerprint=base.fingerprint,
        dim=base.dim,
        bytes=_local_bytes(uri) or statistics["total_bytes"],
        fragments=statistics["fragment_stats"]["num_fragments"],
        version=table.version,
        vector_index="none" if vectors is None else str(vectors.index_type),
        unindexed_vectors=rows if vectors is None else vectors.num_unindexed_rows or 0,
        unindexed_words=rows if words is None else words.num_unindexed_rows or 0,
    )


def _local_bytes(uri: str) -> int:
    """Add up the files of a local store; 0 for other stores."""
    total = 0
    for folder, _, names in os.walk(os.path.join(uri, f"{TABLE}.lance")):
        for name in names:
            try:
                total += os.path.getsize(os.path.join(folder, name))
            except OSError:  # removed by another process in the meantime
                continue
    return total
