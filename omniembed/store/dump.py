"""Everything in a store at once, for export."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..types import Document
from .queries import scan
from .rows import to_document
from .schema import DOCUMENT_COLUMNS
from .store import Store


def read_all(store: Store) -> tuple[list[Document], NDArray[np.float32]]:
    """Read all documents with their vectors.

    Args:
        store: the store.

    Returns:
        Documents ordered by id, and their vectors, float32 (n, dim).

    Raises:
        StoreError: when there is no store yet, or it cannot be read.
    """
    table = store._connection.existing()
    with store._connection.errors("read"):
        found = scan(table, [*DOCUMENT_COLUMNS, "vector"])
    column = found["vector"].combine_chunks()
    vectors = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, store.base.dim)
    documents = [to_document(record) for record in found.drop_columns("vector").to_pylist()]
    order = sorted(range(len(documents)), key=lambda row: documents[row].id)
    return [documents[row] for row in order], np.asarray(vectors[order], np.float32)
