"""The three ways to read the table: nearest vectors, best words, scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .fusion import Found
from .policy import METRIC, index_on
from .rows import to_document
from .schema import DOCUMENT_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.expr import Expr
    from lancedb.query import LanceQueryBuilder, LanceVectorQueryBuilder
    from lancedb.table import Table


MAX_TOP_K = 10_000


def check_top_k(top_k: int) -> None:
    """Refuse a number of hits that cannot be meant.

    Args:
        top_k: number of documents wanted.

    Raises:
        InputError: when it is not a whole number from 1 to ``MAX_TOP_K``.
    """
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MAX_TOP_K:
        raise InputError(f"top_k must be a whole number from 1 to {MAX_TOP_K}, not {top_k!r}")


def check_query(vector: NDArray[np.float32], dim: int) -> NDArray[np.float32]:
    """Refuse a query vector that has no direction; LanceDB finds nothing for one, silently.

    Args:
        vector: of the query.
        dim: width of the stored vectors.

    Returns:
        float32 (dim,).

    Raises:
        InputError: when it is not finite, zero or of another width.
    """
    query = np.asarray(vector, np.float32)
    if query.shape != (dim,):
        raise InputError(f"the query vector has shape {query.shape}; the store holds ({dim},)")
    if not np.isfinite(query).all() or not query.any():
        raise InputError("the query vector must be finite and not zero")
    return query


def nearest(table: Table, query: NDArray[np.float32], top_k: int, condition: Expr | None) -> Found:
    """Find the documents nearest to a vector.

    Args:
        table: the open table.
        query: float32 (dim,), not zero.
        top_k: number of documents wanted.
        condition: filter, applied before the search.

    Returns:
        (cosine similarity, document), best first.
    """
    found = _nearest(table, query, top_k, condition, exact=False)
    if found.num_rows < top_k and index_on(table, "vector") is not None:
        # An IVF index visits some partitions only; a narrow filter may leave them empty.
        found = _nearest(table, query, top_k, condition, exact=True)
    # Rounding can step over either end of the range by a little.
    return _ranked(found, np.clip(1.0 - found["_distance"].to_numpy(), -1.0, 1.0))


def _nearest(
    table: Table,
    query: NDArray[np.float32],
    top_k: int,
    condition: Expr | None,
    *,
    exact: bool,
) -> pa.Table:
    builder = cast(
        "LanceVectorQueryBuilder",
        table.search(query, vector_column_name="vector", query_type="vector"),
    ).distance_type(METRIC)
    if exact:
        builder = builder.bypass_vector_index()
    return _fetch(builder, "_distance", top_k, condition)


def best_words(table: Table, words: str, top_k: int, condition: Expr | None) -> Found:
    """Find the documents that share words with a text.

    Args:
        table: the open table.
        words: separated by blanks; nothing in them is an operator.
        top_k: number of documents wanted.
        condition: filter, applied before the search.

    Returns:
        (BM25 score, document), best first.
    """
    from lancedb.query import MatchQuery

    query = MatchQuery(words, "words")
    builder = table.search(query, query_type="fts")
    found = _fetch(builder, "_score", top_k, condition)
    return _ranked(found, found["_score"].to_numpy())


def scan(table: Table, columns: Sequence[str], condition: Expr | None = None) -> pa.Table:
    """Read columns of all rows that a filter selects.

    Args:
        table: the open table.
        columns: names.
        condition: filter.

    Returns:
        The rows, in no order.
    """
    builder = table.search()
    if condition is not None:
        builder = builder.where(condition)
    return builder.select(list(columns)).to_arrow()


def _fetch(builder: LanceQueryBuilder, score: str, limit: int, condition: Expr | None) -> pa.Table:
    if condition is not None:
        builder = builder.where(condition, prefilter=True)
    return builder.select([*DOCUMENT_COLUMNS, score]).limit(limit).to_arrow()


def _ranked(found: pa.Table, scores: NDArray[np.float32]) -> Found:
    documents = map(to_document, found.to_pylist())
    pairs = zip(scores.tolist(), documents, strict=True)
    return sorted(pairs, key=lambda pair: (-pair[0], pair[1].id))
