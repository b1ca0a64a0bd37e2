"""A small real encoder and helpers for the tests of store and indexer."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from omniembed.errors import EmptyInputError, OmniEmbedError
from omniembed.ingest import Scan, Source
from omniembed.store import IndexPolicy, Row, Store
from omniembed.types import Document, Failure

DIM = 32


def embed(text: str) -> NDArray[np.float32]:
    """Hash words into a unit vector; equal texts give equal vectors, shared words near ones."""
    vector = np.zeros(DIM, np.float32)
    for word in re.findall(r"\w+", text.lower()) or [text]:
        seed = zlib.crc32(word.encode("utf-8", "replace"))
        vector += np.random.default_rng(seed).normal(size=DIM).astype(np.float32)
    return vector / np.linalg.norm(vector)


@dataclass
class Encoded:
    vectors: NDArray[np.float32]
    kept: list[int]
    failures: list[tuple[int, OmniEmbedError]]
    truncated: int = 0


@dataclass
class BagOfWords:
    """Encodes documents, and remembers which."""

    seen: list[str] = field(default_factory=list)
    refuse: Callable[[Document], OmniEmbedError | None] = lambda document: None

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        vectors, kept, failures = [], [], []
        for row, document in enumerate(documents):
            error = self.refuse(document)
            if error is None and not re.search(r"\w", document.content):
                error = EmptyInputError("nothing to read")
            if error is not None:
                failures.append((row, error))
                continue
            self.seen.append(document.id)
            vectors.append(embed(document.content))
            kept.append(row)
        stacked = np.stack(vectors) if vectors else np.empty((0, DIM), np.float32)
        return Encoded(stacked, kept, failures)


def scan_of(
    sources: Iterable[Source | Failure], scope: Callable[[str], bool] | None = None
) -> Scan:
    return Scan(sources, scope, None)


def everything(uri: str) -> bool:
    return True


def open_store(uri: str | Path, policy: IndexPolicy | None = None) -> Store:
    return Store(uri, dim=DIM, fingerprint="bag", model="bag-of-words", policy=policy)


def make_row(document: Document, source: str = "s", digest: str = "d", **place: int) -> Row:
    return Row(document, embed(document.content), source, digest, **place)


def fill(store: Store, documents: Sequence[Document], source: str = "s", digest: str = "d") -> None:
    parts = len(documents)
    store.upsert(
        [
            make_row(document, source, digest, parts=parts, part=part)
            for part, document in enumerate(documents)
        ]
    )


def ids(found: Iterable[tuple[float, Document]]) -> list[str]:
    return [document.id for _, document in found]


def file_source(uri: str, chunks: Sequence[str], reads: list[str] | None = None) -> Source:
    """A file that is cut into chunks; its digest is its content."""

    def read() -> list[Document]:
        if reads is not None:
            reads.append(uri)
        return [
            Document(text, id=f"{uri}#{ordinal}", uri=uri, start_line=ordinal + 1)
            for ordinal, text in enumerate(chunks)
        ]

    return Source(uri, f"{zlib.crc32(repr(list(chunks)).encode()):x}", read)
