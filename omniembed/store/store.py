"""The store: documents with their vectors in a LanceDB table."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..types import Document, Kind
from .connection import Connection
from .filters import compile_filter, isin
from .fusion import Found, fuse
from .info import StoreInfo, describe
from .policy import IndexPolicy, ensure_word_index, index_on, maintain
from .provenance import SourceState, StoredPart, owners, parts_of, source_states
from .queries import best_words, check_query, check_top_k, nearest, scan
from .rows import Row, to_document, to_table
from .schema import DOCUMENT_COLUMNS, Base, build_schema
from .words import query_words

if TYPE_CHECKING:
    from lancedb.expr import Expr
    from lancedb.table import Table

_FUSION_DEPTH = 100
_IDS_PER_DELETE = 5_000


class Store:
    """Documents and vectors of one base in one LanceDB table.

    Nothing is opened before it is used. Instances may be shared between threads: reads run side
    by side and do not wait for writes, writes wait for each other. Several processes may read and
    write one store, each with an instance of its own, started by ``spawn`` and not by ``fork``.

    Args:
        uri: a folder, or an object-store or LanceDB Cloud URI (``s3://``, ``gs://``, ``az://``,
            ``db://``).
        dim: width of the vectors.
        fingerprint: of the base; a table of another base is refused.
        model: name of the base, for messages.
        policy: when to compact and to index.
    """

    def __init__(
        self,
        uri: str | Path,
        *,
        dim: int,
        fingerprint: str,
        model: str,
        policy: IndexPolicy | None = None,
    ) -> None:
        self.uri = os.fspath(uri)
        self.base = Base(model=model, fingerprint=fingerprint, dim=dim)
        self.policy = policy or IndexPolicy()
        self._connection = Connection(self.uri, self.base)
        self._words_ready = False

    def exists(self) -> bool:
        """Tell whether there is a store; create nothing.

        Returns:
            True when the table exists.

        Raises:
            StoreError: when it cannot be opened, or belongs to another base.
        """
        return self._connection.find() is not None

    @property
    def version(self) -> int:
        """Version of the table, which every write raises; 0 before the first."""
        table = self._connection.find()
        if table is None:
            return 0
        with self._connection.errors("read"):
            return int(table.version)

    def upsert(self, rows: Sequence[Row], *, remove: Collection[str] = ()) -> None:
        """Insert documents or replace those of the same id, in one commit.

        Args:
            rows: documents with vectors; ids are distinct.
            remove: ids of documents to delete in the same commit.

        Raises:
            InputError: for a document or vector that cannot be stored; nothing is written.
            StoreError: when the write fails.
        """
        outdated = set(remove).difference(row.document.id for row in rows)
        if not rows:
            self.delete(outdated)
            return
        data = to_table(rows, build_schema(self.base))

        def merge(table: Table) -> None:
            builder = table.merge_insert("id").when_matched_update_all()
            builder = builder.when_not_matched_insert_all()
            if outdated:
                builder = builder.when_not_matched_by_source_delete(isin("id", outdated))
            builder.execute(data)

        self._connection.commit(merge)

    def delete(self, ids: Iterable[str]) -> int:
        """Delete documents by id.

        Args:
            ids: of the documents; unknown ones are ignored.

        Returns:
            Number of documents deleted.

        Raises:
            StoreError: when there is no store yet, or the write fails.
        """
        return self._delete("id", ids)

    def delete_sources(self, sources: Iterable[str]) -> int:
        """Delete all documents of sources.

        Args:
            sources: files or records; unknown ones are ignored.

        Returns:
            Number of documents deleted.

        Raises:
            StoreError: when there is no store yet, or the write fails.
        """
        return self._delete("source", sources)

    def delete_where(self, where: Mapping[str, Any]) -> int:
        """Delete the documents that a filter selects.

        Args:
            where: a filter that is not empty; see :func:`~omniembed.store.filters.compile_filter`.

        Returns:
            Number of documents deleted.

        Raises:
            FilterError: for a filter that cannot be used.
            StoreError: when there is no store yet, or the write fails.
        """
        condition = compile_filter(where)
        if condition is None:
            raise InputError("an empty filter would delete everything; name what to delete")
        return self._delete_rows(condition)

    def _delete(self, column: str, values: Iterable[str]) -> int:
        wanted = sorted(set(values))
        starts = range(0, len(wanted), _IDS_PER_DELETE)
        slices = (wanted[start : start + _IDS_PER_DELETE] for start in starts)
        return sum(self._delete_rows(isin(column, part)) for part in slices)

    def _delete_rows(self, condition: Expr) -> int:
        self._connection.existing()

        def delete(table: Table) -> int:
            result = table.delete(condition)
            return int(result.num_deleted_rows)

        return self._connection.commit(delete)

    def search(
        self,
        vector: NDArray[np.float32],
        *,
        top_k: int = 10,
        kinds: Collection[Kind] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Found:
        """Find the documents nearest to a vector.

        Args:
            vector: float32 (dim,), finite and not zero.
            top_k: number of documents wanted, 1 to 10,000.
            kinds: document kinds to search; all when ``None``.
            where: filter, applied before the search, so that ``top_k`` documents come back if
                that many match.

        Returns:
            (cosine similarity, document), best first; ties are ordered by id.

        Raises:
            InputError: for a vector, number or filter that cannot be used.
            StoreError: when there is no store yet, or it cannot be read.
        """
        query = check_query(vector, self.base.dim)
        condition = _condition(top_k, kinds, where)
        table = self._connection.existing()
        with self._connection.errors("searched"):
            return nearest(table, query, top_k, condition)

    def search_text(
        self,
        text: str,
        *,
        top_k: int = 10,
        kinds: Collection[Kind] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Found:
        """Find documents by their words (BM25 over title and text).

        Args:
            text: any text; nothing in it is an operator.
            top_k: number of documents wanted, 1 to 10,000.
            kinds: document kinds to search; all when ``None``.
            where: filter, applied before the search.

        Returns:
            (BM25 score, document), best first; ties are ordered by id. Documents that share no
            word with the text are not found.

        Raises:
            InputError: for a number or filter that cannot be used.
            StoreError: when there is no store yet, or it cannot be read.
        """
        condition = _condition(top_k, kinds, where)
        words = query_words(text)
        table = self._connection.existing()
        if not words:
            return []
        self._ensure_words(table)
        with self._connection.errors("searched"):
            return best_words(table, words, top_k, condition)

    def hybrid(
        self,
        vector: NDArray[np.float32],
        text: str,
        *,
        top_k: int = 10,
        kinds: Collection[Kind] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Found:
        """Fuse vector and word search by reciprocal ranks.

        Args:
            vector: float32 (dim,), finite and not zero.
            text: words to look for.
            top_k: number of documents wanted, 1 to 10,000.
            kinds: document kinds to search; all when ``None``.
            where: filter, applied before both searches.

        Returns:
            (fused rank score, document), best first; ties are ordered by id.

        Raises:
            InputError: for a vector, number or filter that cannot be used.
            StoreError: when there is no store yet, or it cannot be read.
        """
        check_top_k(top_k)
        depth = max(top_k, _FUSION_DEPTH)
        near = self.search(vector, top_k=depth, kinds=kinds, where=where)
        worded = self.search_text(text, top_k=depth, kinds=kinds, where=where)
        return fuse([near, worded], top_k=top_k)

    def count(
        self,
        *,
        kinds: Collection[Kind] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> int:
        """Count documents.

        Args:
            kinds: document kinds to count; all when ``None``.
            where: filter.

        Returns:
            Number of documents that match.

        Raises:
            FilterError: for a filter that cannot be used.
            StoreError: when there is no store yet, or it cannot be read.
        """
        condition = compile_filter(where, kinds)
        table = self._connection.existing()
        with self._connection.errors("read"):
            return int(scan(table, ["id"], condition).num_rows)

    def get(self, ids: Iterable[str]) -> list[Document]:
        """Read documents by id.

        Args:
            ids: of the documents; unknown ones are left out.

        Returns:
            The documents, in the order of their ids.

        Raises:
            StoreError: when there is no store yet, or it cannot be read.
        """
        table = self._connection.existing()
        with self._connection.errors("read"):
            found = scan(table, DOCUMENT_COLUMNS, isin("id", ids))
        return sorted(map(to_document, found.to_pylist()), key=lambda document: document.id)

    def sources(self) -> dict[str, SourceState]:
        """Read which sources the store holds, in one scan.

        Returns:
            By source; empty when there is no store yet.

        Raises:
            StoreError: when the store cannot be read.
        """
        table = self._connection.find()
        if table is None:
            return {}
        with self._connection.errors("read"):
            return source_states(table)

    def parts_of(self, sources: Iterable[str]) -> list[StoredPart]:
        """Read what the store holds of sources, with vectors.

        Args:
            sources: files or records.

        Returns:
            Their documents, without text; none when there is no store yet.

        Raises:
            StoreError: when the store cannot be read.
        """
        wanted = list(sources)
        table = self._connection.find()
        if table is None or not wanted:
            return []
        with self._connection.errors("read"):
            return parts_of(table, wanted, self.base.dim)

    def owners(self, ids: Iterable[str]) -> dict[str, str]:
        """Read which sources documents were cut from.

        Args:
            ids: of documents.

        Returns:
            Source by id, of those that the store holds.

        Raises:
            StoreError: when the store cannot be read.
        """
        wanted = list(ids)
        table = self._connection.find()
        if table is None or not wanted:
            return {}
        with self._connection.errors("read"):
            return owners(table, wanted)

    def optimize(self) -> bool:
        """Compact and index as the policy calls for.

        Returns:
            True when anything was done.

        Raises:
            StoreError: when there is no store yet, or maintenance fails; documents are safe.
        """
        self._connection.existing()
        return self._connection.commit(lambda table: maintain(table, self.policy))

    def info(self) -> StoreInfo:
        """Describe the store.

        Returns:
            Rows, kinds, size, indexes and the base that it was built with.

        Raises:
            StoreError: when there is no store yet, or it cannot be read.
        """
        table = self._connection.existing()
        with self._connection.errors("read"):
            return describe(table, self.uri)

    def _ensure_words(self, table: Table) -> None:
        """Build a missing word index: the process that created the table may have been killed."""
        if not self._words_ready:
            with self._connection.errors("searched"):
                missing = index_on(table, "words") is None
            if missing:
                self._connection.commit(ensure_word_index)
            self._words_ready = True


def _condition(
    top_k: int, kinds: Collection[Kind] | None, where: Mapping[str, Any] | None
) -> Expr | None:
    """Check the options of a search and compile its filter."""
    check_top_k(top_k)
    return compile_filter(where, kinds)
