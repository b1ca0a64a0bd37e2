"""Records, DataFrames and Arrow tables to sources."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from ..errors import EmptyInputError, InputError, InputTypeError, OmniEmbedError
from ..inputs import is_image
from ..types import Document, Failure, Kind
from .source import Source, content_digest
from .tools import callable_document, tool_document, tools_in

_FIELDS = ("id", "title", "text", "kind", "uri", "image", "language", "symbol")
_ALIASES = {"_id": "id", "content": "text", "body": "text"}
_LINES = ("start_line", "end_line")


def record_sources(records: Iterable[object]) -> Iterator[Source | Failure]:
    """Read records one by one.

    Args:
        records: ``Document``, mapping, str, image or callable each.

    Yields:
        A source each, or a failure that names the record's position.
    """
    for index, record in _expanded(records):
        try:
            document = as_record(record)
            digest = _digest(document)
        except OmniEmbedError as error:
            error.args = (f"record {index}: {error}",)
            yield Failure(f"record {index}", error)
            continue
        # Without an id, what has a place keeps its identity when its content changes.
        identifier = document.id or document.uri or digest
        # The prefix keeps an id that looks like a path out of the scope of any folder.
        uri = f"record:{identifier}"
        yield Source(uri, digest, _reader(replace(document, id=identifier)))


def _expanded(records: Iterable[object]) -> Iterator[tuple[int, object]]:
    """Replace tool lists and function schemas, which are mappings too, by their tools."""
    for index, record in enumerate(records):
        tools = tools_in(record) if isinstance(record, Mapping) and _is_bare(record) else None
        for item in [record] if tools is None else tools:
            yield index, item


def _is_bare(record: Mapping[Any, Any]) -> bool:
    return not {"text", "content", "body", "image", "title"} & record.keys()


def as_record(record: object) -> Document:
    """Read one record.

    Args:
        record: a ``Document``, a mapping with the fields of one, a text, an image or a callable.

    Returns:
        The document.

    Raises:
        InputError: for a field of a value that cannot be used.
        InputTypeError: for another type.
        EmptyInputError: for a record without content.
    """
    if isinstance(record, Document):
        document = record
    elif isinstance(record, Mapping):
        document = _from_mapping(record)
    elif isinstance(record, str):
        if _names_a_path(record):
            raise InputError(
                f"{record!r} is an existing path, but a str in a list is a text; "
                "call index() once for each path"
            )
        document = Document(text=record)
    elif is_image(record):
        image = record.absolute() if isinstance(record, Path) else record
        uri = image.as_posix() if isinstance(image, Path) else ""
        document = Document(kind=Kind.IMAGE, image=image, uri=uri)  # type: ignore[arg-type]
    elif callable(record):
        document = callable_document(record)
    else:
        raise InputTypeError(
            f"{type(record).__name__} is no record; give a Document, a dict, a str, an image "
            "(pathlib.Path or PIL.Image) or a callable"
        )
    if document.image is None and not document.content.strip():
        raise EmptyInputError("holds neither text nor an image")
    return document


def _names_a_path(text: str) -> bool:
    """Tell a path given by mistake from a text; a bare word may well be a text."""
    looks_like_one = len(text) < 1024 and ("/" in text or "." in text) and "\0" not in text
    try:
        return looks_like_one and Path(text).exists()
    except OSError:
        return False


def table_rows(table: Any) -> Iterator[Mapping[str, object]] | None:
    """Read a DataFrame or an Arrow table without importing either library.

    Args:
        table: anything.

    Returns:
        Rows as mappings, or ``None`` where it is no table.
    """
    kind = type(table)
    family = kind.__module__.partition(".")[0]
    if family == "pandas" and hasattr(table, "itertuples"):
        columns = [str(column) for column in table.columns]
        return (
            dict(zip(columns, row, strict=True)) for row in table.itertuples(index=False, name=None)
        )
    if family == "pyarrow" and hasattr(table, "to_batches"):
        return (row for batch in table.to_batches() for row in batch.to_pylist())
    if family == "pyarrow" and hasattr(table, "read_next_batch"):
        return (row for batch in table for row in batch.to_pylist())
    if family == "pyarrow" and hasattr(table, "to_pylist"):
        rows: list[Mapping[str, object]] = table.to_pylist()
        return iter(rows)
    return None


def _from_mapping(record: Mapping[Any, Any]) -> Document:
    row = {str(key): _plain(value) for key, value in record.items()}
    for alias, name in _ALIASES.items():
        if alias in row and row.get(name) is None:
            row[name] = row.pop(alias)
    fields: dict[str, Any] = {}
    for name in (*_FIELDS, *_LINES):
        value = row.pop(name, None)
        if value is not None:
            fields[name] = _field(name, value)
    if fields.get("kind") == "tool" and "text" not in fields and row.get("name"):
        return replace(tool_document(row), id=fields.get("id", ""), uri=fields.get("uri", ""))
    metadata = row.pop("metadata", None) or {}
    if not isinstance(metadata, Mapping):
        raise InputError(f"metadata must be a mapping, not {type(metadata).__name__}")
    others = {key: value for key, value in row.items() if value is not None}
    if "image" in fields:
        fields.setdefault("kind", Kind.IMAGE)
    return Document(**fields, metadata={**metadata, **others})


def _field(name: str, value: Any) -> Any:
    if name in _LINES:
        return _line(name, value)
    if name == "image":
        return _image(value)
    if name == "id" and isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of whole numbers with a gap
    return value if name in {"kind", "text"} else str(value)


def _line(name: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a line number, not {value!r}") from None
    if number < 1 or number != value:
        raise InputError(f"{name} must be a whole number from 1, not {value!r}")
    return number


def _image(value: Any) -> Any:
    """In a record, the field says that it is an image, so that a str can only be a path."""
    if isinstance(value, str):
        return Path(value).absolute()
    if isinstance(value, Path):
        return value.absolute()
    if not is_image(value):
        raise InputTypeError(f"image must be a path or a PIL.Image, not {type(value).__name__}")
    return value


def _plain(value: Any) -> Any:
    """Turn what tables hold into JSON values, and missing values into ``None``."""
    if type(value).__name__ in {"NAType", "NaTType"}:
        return None
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        value = value.tolist()
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or (isinstance(value, float) and value != value):
        return None
    return value


def _digest(document: Document) -> str:
    fields = (
        document.id,
        document.kind.value,
        document.title,
        document.text,
        document.uri,
        document.language,
        document.symbol,
        str(document.start_line),
        str(document.end_line),
        json.dumps(dict(document.metadata), sort_keys=True, default=str),
    )
    parts = [field.encode("utf-8", "replace") for field in fields]
    image = document.image
    if isinstance(image, Path):
        try:
            parts.append(image.read_bytes())
        except OSError:
            parts.append(str(image).encode("utf-8", "replace"))
    elif image is not None:
        parts += [f"{image.mode} {image.size}".encode(), image.tobytes()]
    return content_digest(*parts)


def _reader(document: Document) -> Callable[[], list[Document]]:
    return lambda: [document]
