"""Opening the table once, lazily, and writing to it against competition."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from ..errors import OmniEmbedError, StoreError
from .policy import ensure_word_index
from .schema import TABLE, Base, build_schema, check_base

if TYPE_CHECKING:
    from lancedb.db import DBConnection
    from lancedb.table import Table

_T = TypeVar("_T")

_PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0, 2.0)


class Connection:
    """The table of one store.

    Reads see what other processes committed, and do not wait for writes. Writes of one instance
    are made one at a time; those of others are retried when they collide.

    Args:
        uri: folder, or object-store or LanceDB Cloud URI.
        base: the model now loaded.
    """

    def __init__(self, uri: str, base: Base) -> None:
        self.uri = uri
        self._base = base
        self._table: Table | None = None
        self._opening = threading.Lock()
        self._writing = threading.Lock()

    def find(self) -> Table | None:
        """Open the table if there is one; create nothing.

        Returns:
            The table, or ``None``.

        Raises:
            FingerprintMismatchError: when another base filled it.
            StoreError: when it cannot be opened.
        """
        with self._opening:
            # Connecting would make the folder.
            if self._table is None and ("://" in self.uri or os.path.exists(self.uri)):
                with self.errors("opened"):
                    self._table = self._open(self._connect())
            return self._table

    def existing(self) -> Table:
        """Open the table.

        Returns:
            The table.

        Raises:
            FingerprintMismatchError: when another base filled it.
            StoreError: when there is none, or it cannot be opened.
        """
        table = self.find()
        if table is None:
            raise StoreError(
                f"there is no store at {self.uri} yet; index something into it first, with "
                "omni.index(...) or 'omniembed index'"
            )
        return table

    def ready(self) -> Table:
        """Open the table, or create it.

        Returns:
            The table.

        Raises:
            FingerprintMismatchError: when another base filled it.
            StoreError: when it cannot be opened or created.
        """
        table = self.find()
        if table is not None:
            return table
        with self._opening:
            if self._table is None:
                with self.errors("created"):
                    self._table = self._create(self._connect())
            return self._table

    def commit(self, action: Callable[[Table], _T]) -> _T:
        """Write, again when another writer was faster.

        Args:
            action: makes one commit to the table; nothing is kept of one that raises.

        Returns:
            What the action returns.

        Raises:
            StoreError: when the write failed, or lost against other writers every time.
        """
        table = self.ready()
        with self._writing, self.errors("written"):
            return _retried(lambda: action(table))

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Raise what LanceDB raises as a typed error.

        Args:
            what: what could not be done to the store, as a participle.

        Yields:
            Nothing.

        Raises:
            StoreError: for every error that is not ours.
        """
        try:
            yield
        except OmniEmbedError:
            raise
        except Exception as error:
            raise StoreError(f"the store at {self.uri} cannot be {what}: {error}") from error

    def _connect(self) -> DBConnection:
        import lancedb

        # Zero: look for commits of others at every read.
        return lancedb.connect(self.uri, read_consistency_interval=timedelta(0))

    def _open(self, database: DBConnection) -> Table | None:
        try:
            table = database.open_table(TABLE)
        except Exception as error:
            if "not found" in str(error).lower():
                return None
            raise
        check_base(table.schema, self._base, self.uri)
        return table

    def _create(self, database: DBConnection) -> Table:
        try:
            table = database.create_table(TABLE, schema=build_schema(self._base))
        except Exception:
            # Another process may have been faster; if not, this raises what went wrong.
            found = self._open(database)
            if found is None:
                raise
            table = found
        _retried(lambda: ensure_word_index(table))
        return table


def _retried(action: Callable[[], _T]) -> _T:
    """Act, again while other writers are faster, for about ten seconds."""
    for pause in _PAUSES_S:
        try:
            return action()
        except Exception as error:
            if not _is_conflict(error):
                raise
        time.sleep(pause * random.uniform(0.5, 1.0))
    return action()


def _is_conflict(error: Exception) -> bool:
    message = str(error).lower()
    return "conflict" in message or "concurrent" in message
