"""Units of incremental indexing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ..types import Document, Failure

READER_VERSION = "1"
"""Part of every digest: a change in how files are cut makes the next run read them again."""

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """One file or one record.

    Attributes:
        uri: absolute POSIX path of a file, or the identifier of a record.
        digest: hex digest of its content; equal digests give equal documents.
        read: parses it. Raises a typed error, ``EmptyInputError`` where it holds nothing.
    """

    uri: str
    digest: str
    read: Callable[[], list[Document]]


@dataclass(frozen=True, slots=True)
class Scan:
    """What there is to index.

    Attributes:
        sources: found lazily, in a fixed order; a ``Failure`` for an entry that cannot be read.
        scope: tells whether the file of a stored uri belongs to what was scanned and is gone;
            ``None`` for records, which never vanish.
        total: number of sources, where it is known beforehand.
        missing: why nothing was found where files were named; an error, unless the store holds
            documents in the scope, which have then vanished.
    """

    sources: Iterable[Source | Failure]
    scope: Callable[[str], bool] | None
    total: int | None
    missing: str | None = None


def file_digest(path: Path, settings: str) -> str:
    """Digest a file and the settings it is read with.

    Args:
        path: the file.
        settings: whatever changes its documents.

    Returns:
        32 hex digits.

    Raises:
        OSError: when the file cannot be read.
    """
    digest = hashlib.blake2b(f"{READER_VERSION}|{settings}|".encode(), digest_size=16)
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def content_digest(*parts: bytes) -> str:
    """Digest a record.

    Args:
        *parts: its content, in a fixed order.

    Returns:
        32 hex digits.
    """
    digest = hashlib.blake2b(READER_VERSION.encode(), digest_size=16)
    for part in parts:
        # The length keeps ("ab", "c") and ("a", "bc") apart.
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
