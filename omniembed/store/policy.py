"""When the table is compacted and indexed, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from lancedb.index import IndexConfig
    from lancedb.table import Table

METRIC: Final = "cosine"


@dataclass(frozen=True)
class IndexPolicy:
    """When to spend time on maintenance.

    Attributes:
        vector_rows: from this number of rows on vectors get an IVF index; below, search compares
            with all of them, which is exact (50,000 rows of 384 numbers take about 0.1 s).
        unindexed_fraction: share of rows outside an index that calls for adding them to it. They
            are found before that too, by comparing with each.
        small_fragments: number of small data files that calls for merging them.
        keep_versions: age up to which old versions of the table stay readable. A search that
            takes longer than this could lose the files that it reads.
    """

    vector_rows: int = 50_000
    unindexed_fraction: float = 0.1
    small_fragments: int = 20
    keep_versions: timedelta = timedelta(hours=1)


def index_on(table: Table, column: str) -> IndexConfig | None:
    """Find the index of a column, whatever its name.

    Args:
        table: the open table.
        column: name of the column.

    Returns:
        The index, or ``None`` when there is none.
    """
    return next((index for index in table.list_indices() if index.columns == [column]), None)


def ensure_word_index(table: Table) -> None:
    """Build the BM25 index if the table has none; word search finds nothing without it.

    Args:
        table: the open table.
    """
    from lancedb.index import FTS

    if index_on(table, "words") is None:
        # ICU finds words in scripts without blanks. Stop words stay: BM25 gives them next to no
        # weight, and "if" or "for" can be all that a query has.
        config = FTS(base_tokenizer="icu/split", stem=True, remove_stop_words=False)
        table.create_index("words", config=config)


def maintain(table: Table, policy: IndexPolicy) -> bool:
    """Do what the policy calls for.

    Args:
        table: the open table.
        policy: when to do what.

    Returns:
        True when anything was done.
    """
    ensure_word_index(table)
    worked = _maintain_vector_index(table, policy)
    if any(_reasons_to_optimize(table, policy)):
        table.optimize(cleanup_older_than=policy.keep_versions)
        return True
    return worked


def _maintain_vector_index(table: Table, policy: IndexPolicy) -> bool:
    from lancedb.index import IvfFlat

    if table.count_rows() < policy.vector_rows:
        return False
    index = index_on(table, "vector")
    if index is not None:
        statistics = table.index_stats(index.name)
        if statistics is None or statistics.distance_type == METRIC:
            return False
    # An index of another metric would be passed over without a word at every search.
    table.create_index("vector", config=IvfFlat(distance_type=METRIC), replace=True)
    return True


def statistics_of(table: Table) -> Mapping[str, Any]:
    """Read size, rows and fragments.

    Args:
        table: the open table.

    Returns:
        What LanceDB declares as ``TableStatistics`` and returns as a dictionary.
    """
    return cast("Mapping[str, Any]", table.stats())


def _reasons_to_optimize(table: Table, policy: IndexPolicy) -> Iterator[bool]:
    statistics = statistics_of(table)
    fragments = statistics["fragment_stats"]
    yield fragments["num_small_fragments"] > policy.small_fragments
    limit = policy.unindexed_fraction * statistics["num_rows"]
    for index in table.list_indices():
        yield (index.num_unindexed_rows or 0) > limit
