"""Documents as table rows, and back."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, InputTypeError
from ..types import Document
from .tags import clean, dump_metadata, make_tags
from .words import document_words

if TYPE_CHECKING:
    import pyarrow as pa
    from PIL.Image import Image

_THUMBNAIL_SIDE = 256
_UNIT_TOLERANCE = 1e-3
_MAX_LINE = 2**63


@dataclass(frozen=True)
class Row:
    """A document with its vector and where it came from.

    Attributes:
        document: what to store; its id is not empty.
        vector: float32 (dim,), unit norm.
        source: the file or record that the document was cut from.
        digest: identifies the content of the source.
        parts: number of documents in the source.
        part: position of this one, from 0.
        content: :func:`content_hash` of the document.
    """

    document: Document
    vector: NDArray[np.float32]
    source: str
    digest: str
    parts: int = 1
    part: int = 0
    content: str = ""


def content_hash(document: Document) -> str:
    """Hash what a document's vector depends on: kind, title and text, pixels.

    Args:
        document: any document.

    Returns:
        A hexadecimal SHA-256.
    """
    digest = hashlib.sha256(f"{document.kind}\0{clean(document.content)}\0".encode())
    image = document.image
    try:
        if isinstance(image, Path):
            digest.update(image.read_bytes())
        elif image is not None:
            digest.update(f"{image.mode}{image.size}".encode())
            digest.update(image.tobytes())
    except Exception:  # missing or damaged, which Pillow shows in many ways; the encoder says so
        digest.update(clean(str(image)).encode())
    return digest.hexdigest()


def check_document(document: Document) -> None:
    """Refuse a document that cannot be stored.

    Args:
        document: any document.

    Raises:
        InputError: for a line number out of range, or metadata that is not JSON.
        InputTypeError: for a field of another type than declared.
    """
    for name in ("id", "title", "uri", "language", "symbol"):
        value = getattr(document, name)
        if not isinstance(value, str):
            raise InputTypeError(f"Document.{name} must be str, not {type(value).__name__}")
    for name in ("start_line", "end_line"):
        line = getattr(document, name)
        if line is not None and (isinstance(line, bool) or not isinstance(line, int)):
            raise InputTypeError(f"Document.{name} must be int, not {type(line).__name__}")
        if line is not None and not 0 < line < _MAX_LINE:
            raise InputError(f"Document.{name} must be from 1 to {_MAX_LINE - 1}, not {line}")
    if not isinstance(document.metadata, Mapping):
        kind = type(document.metadata).__name__
        raise InputTypeError(f"Document.metadata must be a mapping, not {kind}")
    dump_metadata(document.metadata)


def to_table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Build what is written to the table.

    Args:
        rows: with distinct ids.
        schema: of the table.

    Returns:
        The Arrow table.

    Raises:
        InputError: for an empty or repeated id, and what :func:`check_document` and
            :func:`check_vector` refuse.
    """
    import pyarrow as pa

    dim = schema.field("vector").type.list_size
    vectors = np.stack([check_vector(row.vector, dim, row.document.id) for row in rows])
    names = [name for name in schema.names if name != "vector"]
    records = [_record(row) for row in rows]
    ids = {record["id"] for record in records}
    if "" in ids or len(ids) != len(records):
        raise InputError("every document of an upsert needs an id, and no two the same")
    columns = [
        pa.array([record[name] for record in records], schema.field(name).type) for name in names
    ]
    columns.append(pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), dim))
    return pa.Table.from_arrays(columns, schema=schema)


def check_vector(vector: NDArray[np.float32], dim: int, name: str) -> NDArray[np.float32]:
    """Refuse a vector that would spoil the table.

    Args:
        vector: of a document.
        dim: width that it must have.
        name: id of the document, for messages.

    Returns:
        float32 (dim,).

    Raises:
        InputError: for a vector that is not finite, of that width and of unit norm.
    """
    checked = np.asarray(vector, np.float32)
    if checked.shape != (dim,):
        raise InputError(
            f"the vector of {name!r} has shape {checked.shape}; the store holds ({dim},)"
        )
    norm = float(np.linalg.norm(checked))
    if not abs(norm - 1) <= _UNIT_TOLERANCE:  # also catches NaN
        raise InputError(f"the vector of {name!r} has norm {norm:.6g}; stored ones have unit norm")
    return checked


def _record(row: Row) -> dict[str, Any]:
    document = row.document
    check_document(document)
    image = document.image
    return {
        "id": clean(document.id),
        "kind": document.kind.value,
        "title": clean(document.title),
        "text": clean(document.text),
        "uri": clean(document.uri),
        "language": clean(document.language),
        "symbol": clean(document.symbol),
        "start_line": document.start_line or 0,
        "end_line": document.end_line or 0,
        "image": clean(str(image)) if isinstance(image, Path) else "",
        "thumbnail": b"" if image is None or isinstance(image, Path) else _thumbnail(image),
        "metadata": dump_metadata(document.metadata),
        "tags": make_tags(document.metadata),
        "words": document_words(document),
        "source": clean(row.source),
        "digest": row.digest,
        "parts": row.parts,
        "part": row.part,
        "content": row.content or content_hash(document),
    }


def to_document(record: Mapping[str, Any]) -> Document:
    """Read a document back.

    Args:
        record: the ``DOCUMENT_COLUMNS`` of a row.

    Returns:
        The document. A picture that was given without a path comes back as a thumbnail of at
        most 256 pixels a side.
    """
    image: Path | Image | None = Path(record["image"]) if record["image"] else None
    if record["thumbnail"]:
        from PIL import Image as PillowImage

        image = PillowImage.open(io.BytesIO(record["thumbnail"]))
    return Document(
        text=record["text"],
        kind=record["kind"],
        id=record["id"],
        title=record["title"],
        uri=record["uri"],
        image=image,
        language=record["language"],
        symbol=record["symbol"],
        start_line=record["start_line"] or None,
        end_line=record["end_line"] or None,
        metadata=json.loads(record["metadata"]),
    )


def _thumbnail(image: Image) -> bytes:
    from ..models.images import load_rgb

    small = load_rgb(image).copy()
    small.thumbnail((_THUMBNAIL_SIDE, _THUMBNAIL_SIDE))
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=80)
    return buffer.getvalue()
