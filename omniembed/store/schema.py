"""The Arrow schema of the ``documents`` table and what its metadata says about the base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import FingerprintMismatchError, StoreError

if TYPE_CHECKING:
    import pyarrow as pa

TABLE = "documents"
FORMAT = 1

DOCUMENT_COLUMNS = (
    "id",
    "kind",
    "title",
    "text",
    "uri",
    "language",
    "symbol",
    "start_line",
    "end_line",
    "image",
    "thumbnail",
    "metadata",
)
"""What a :class:`~omniembed.types.Document` is read back from."""

# Lance detects two writers that insert the same key at once only when the key is declared;
# without this, concurrent upserts of new documents left every id twice in the table.
_PRIMARY_KEY = {b"lance-schema:unenforced-primary-key": b"true"}


@dataclass(frozen=True)
class Base:
    """The model that a store's vectors come from.

    Attributes:
        model: its name, for messages.
        fingerprint: hash over the weights that document vectors depend on.
        dim: width of a vector.
    """

    model: str
    fingerprint: str
    dim: int


def build_schema(base: Base) -> pa.Schema:
    """Describe the table.

    No column holds nulls, so that negated filters select exactly the complement.

    Args:
        base: the model that fills the ``vector`` column.

    Returns:
        The Arrow schema, with the base recorded in its metadata.
    """
    import pyarrow as pa

    def column(name: str, kind: pa.DataType) -> pa.Field:
        return pa.field(name, kind, nullable=False)

    return pa.schema(
        [
            column("id", pa.string()).with_metadata(_PRIMARY_KEY),
            column("kind", pa.string()),
            column("title", pa.string()),
            column("text", pa.string()),
            column("uri", pa.string()),
            column("language", pa.string()),
            column("symbol", pa.string()),
            column("start_line", pa.int64()),  # 0: none
            column("end_line", pa.int64()),  # 0: none
            column("image", pa.string()),  # path of the picture, if it has one
            column("thumbnail", pa.binary()),  # WebP of a picture that was given without a path
            column("metadata", pa.string()),  # JSON object
            column("tags", pa.string()),  # metadata as searchable tags, see tags.py
            column("words", pa.string()),  # what word search reads, see words.py
            column("source", pa.string()),  # the file or record that the document was cut from
            column("digest", pa.string()),  # of the source
            column("parts", pa.int64()),  # number of documents in the source
            column("part", pa.int64()),  # position of this one, from 0
            column("content", pa.string()),  # hash of what was embedded
            column("vector", pa.list_(pa.float32(), base.dim)),
        ],
        metadata={
            "omniembed.format": str(FORMAT),
            "omniembed.model": base.model,
            "omniembed.fingerprint": base.fingerprint,
            "omniembed.dim": str(base.dim),
        },
    )


def read_base(schema: pa.Schema, uri: str) -> Base:
    """Read which base a table was built with.

    Args:
        schema: of the opened table.
        uri: of the store, for messages.

    Returns:
        The recorded base.

    Raises:
        StoreError: when the table is not ours, or of another format.
    """
    stored = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    if "omniembed.format" not in stored:
        raise StoreError(
            f"{uri} holds a table {TABLE!r} that omniembed did not write; choose another store"
        )
    if stored["omniembed.format"] != str(FORMAT):
        raise StoreError(
            f"{uri} has store format {stored['omniembed.format']}, this version reads {FORMAT}; "
            "update omniembed, or index into a new store"
        )
    return Base(
        model=stored["omniembed.model"],
        fingerprint=stored["omniembed.fingerprint"],
        dim=int(stored["omniembed.dim"]),
    )


def check_base(schema: pa.Schema, base: Base, uri: str) -> None:
    """Refuse a table whose vectors another base made.

    Args:
        schema: of the opened table.
        base: the model now loaded.
        uri: of the store, for messages.

    Raises:
        FingerprintMismatchError: when the vectors are not comparable.
        StoreError: when the table is not ours, or of another format.
    """
    stored = read_base(schema, uri)
    if (stored.fingerprint, stored.dim) != (base.fingerprint, base.dim):
        raise FingerprintMismatchError(
            f"{uri} was built with model {stored.model!r} (fingerprint {stored.fingerprint}, "
            f"{stored.dim} dimensions), but {base.model!r} (fingerprint {base.fingerprint}, "
            f"{base.dim} dimensions) is loaded; their vectors cannot be compared. Load that "
            "model, or index the documents again into a new store"
        )
