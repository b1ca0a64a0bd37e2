"""From what callers pass to the two things that the towers read: texts and images."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from .errors import EmptyInputError, InputTypeError
from .types import Document, ImageInput, Kind, Query, QueryInput

DocumentInput: TypeAlias = str | ImageInput | Document
"""A text, an image, or a document of any kind."""


def is_image(value: object) -> bool:
    """Tell whether a value is an image input.

    Args:
        value: anything.

    Returns:
        True for a path or a ``PIL.Image``.
    """
    if isinstance(value, Path):
        return True
    if isinstance(value, str):
        return False
    from PIL.Image import Image

    return isinstance(value, Image)


def as_documents(items: Iterable[DocumentInput]) -> list[Document]:
    """Read document inputs.

    Args:
        items: texts, images or documents.

    Returns:
        A document each.

    Raises:
        InputTypeError: for anything else, naming its position, and for a single item.
    """
    return [_as_document(item, index) for index, item in enumerate(_sequence(items, "documents"))]


def as_queries(items: Iterable[QueryInput]) -> list[Query]:
    """Read query inputs.

    Args:
        items: see ``QueryInput``.

    Returns:
        A query each.

    Raises:
        InputTypeError: for anything else, naming its position, and for a single item.
        EmptyInputError: for a text without a word, naming its position.
    """
    return [as_query(item, index) for index, item in enumerate(_sequence(items, "queries"))]


def as_query(item: object, index: int | None = None) -> Query:
    """Read one query input.

    Args:
        item: see ``QueryInput``.
        index: position in the batch, for messages.

    Returns:
        The query.

    Raises:
        InputTypeError: when it is none.
        EmptyInputError: for a text without a word.
    """
    name = "query" if index is None else f"query {index}"
    if isinstance(item, Query):
        query = item
    elif isinstance(item, str):
        query = Query(text=item)
    elif isinstance(item, tuple) and len(item) == 2:
        query = Query(image=item[0], text=item[1])
    elif is_image(item):
        query = Query(image=item)  # type: ignore[arg-type]
    else:
        raise InputTypeError(
            f"{name} is {_describe(item)}; give a str, a pathlib.Path or PIL.Image, "
            "(image, 'modification'), or a Query"
        )
    if query.image is not None and not is_image(query.image):
        raise InputTypeError(
            f"the image of {name} is {_describe(query.image)}; "
            "give a pathlib.Path or a PIL.Image (a str is always text)"
        )
    if query.text is not None:
        if not isinstance(query.text, str):
            raise InputTypeError(f"the text of {name} is {_describe(query.text)}, not str")
        if not query.text.strip():
            raise EmptyInputError(f"the text of {name} is empty; give at least one word")
    return query


def _as_document(item: object, index: int) -> Document:
    if isinstance(item, Document):
        return item
    if isinstance(item, str):
        return Document(text=item)
    if is_image(item):
        uri = str(item) if isinstance(item, Path) else ""
        return Document(kind=Kind.IMAGE, image=item, uri=uri)  # type: ignore[arg-type]
    raise InputTypeError(
        f"document {index} is {_describe(item)}; "
        "give a str (text), a pathlib.Path or PIL.Image (an image), or a Document"
    )


def _sequence(items: object, what: str) -> list[object]:
    if isinstance(items, (str, bytes, Path, Document, Query)) or not isinstance(items, Iterable):
        raise InputTypeError(f"{what} must be a sequence, not {_describe(items)}; use [item]")
    return list(items)


def _describe(value: object) -> str:
    return f"a {type(value).__name__} ({str(value)[:60]!r})"
