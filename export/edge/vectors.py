"""A store as files: vectors as .npy, documents as JSON Lines, small pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ExportError, ImageError
from ...store import Store
from ...store.dump import read_all
from ...types import Document, Kind

FOLDER = "index"
_THUMBNAIL_SIDE = 192


def export_store(store: Store, folder: Path, *, root: Path | None = None) -> int:
    """Write every document of a store with its vector.

    Args:
        store: the store.
        folder: where to write ``vectors.npy``, ``documents.jsonl`` and ``thumbnails/``.
        root: folder that file names are written relative to, so that a bundle does not tell where
            its maker keeps files.

    Returns:
        Number of documents.

    Raises:
        ExportError: when the store is missing or empty.
    """
    if not store.exists():
        raise ExportError(f"there is no store at {store.uri}; index something first")
    documents, vectors = read_all(store)
    if not documents:
        raise ExportError(f"the store at {store.uri} is empty; index something first")
    folder.mkdir()
    np.save(folder / "vectors.npy", vectors)
    with (folder / "documents.jsonl").open("w", encoding="utf-8") as stream:
        for row, document in enumerate(documents):
            record = _record(document, root)
            if document.kind is Kind.IMAGE:
                record["thumbnail"] = _thumbnail(document, folder, row)
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")
    return len(documents)


def _record(document: Document, root: Path | None) -> dict[str, Any]:
    prefix = "" if root is None else f"{root.as_posix()}/"
    record: dict[str, Any] = {
        "id": document.id.removeprefix(prefix),
        "kind": document.kind.value,
        "title": document.title,
        "text": document.text,
        "uri": document.uri.removeprefix(prefix),
    }
    optional = {
        "language": document.language,
        "symbol": document.symbol,
        "start_line": document.start_line,
        "end_line": document.end_line,
        "metadata": dict(document.metadata),
    }
    return record | {name: value for name, value in optional.items() if value}


def _thumbnail(document: Document, folder: Path, row: int) -> str | None:
    """Store a small picture for pages that show results; a picture that is gone has none."""
    from ...models.images import load_rgb

    if document.image is None:
        return None
    try:
        small = load_rgb(document.image).copy()
    except ImageError:
        return None
    small.thumbnail((_THUMBNAIL_SIDE, _THUMBNAIL_SIDE))
    (folder / "thumbnails").mkdir(exist_ok=True)
    name = f"thumbnails/{row}.webp"
    small.save(folder / name, "WEBP", quality=80)
    return name
