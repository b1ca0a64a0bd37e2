"""Bringing a store up to date with a scan: read, embed and write only what changed.

A source is unchanged when the store holds all of its documents under its present digest; it is
then neither read nor embedded. Documents of a changed source keep their vectors where what was
embedded is the same. Work is committed in batches, so that a killed run keeps what it
committed; the sources that it left incomplete are taken up again by the next run.
"""

from __future__ import annotations

import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .errors import (
    EmptyInputError,
    IngestError,
    InputError,
    OmniEmbedError,
    SourceNotFoundError,
    StoreError,
    UnsupportedFileError,
)
from .store import Row, check_document, check_vector, clean, content_hash
from .types import Document, Failure, IndexReport

if TYPE_CHECKING:
    from .ingest import Scan, Source
    from .store import SourceState, Store, StoredPart

Progress: TypeAlias = Callable[[int, "int | None"], None]
"""Called with the number of sources done, and of all where that is known."""

BATCH = 256
"""Documents that are embedded and committed together; what a kill can cost."""

_FIRST_MAINTENANCE = 64  # commits
_PASSED_OVER = (EmptyInputError, UnsupportedFileError)
"""Errors that say there is nothing to index, rather than that something went wrong."""

_TAKEN = "id {!r} is taken by another document of this run; ids must be unique in a store"


class EncodedBatch(Protocol):
    """What an encoder returns; see :class:`omniembed.embedder.EncodedDocuments`."""

    @property
    def vectors(self) -> NDArray[np.float32]:
        """float32 (m, dim), unit norm."""

    @property
    def kept(self) -> list[int]:
        """Positions of the m documents in the input."""

    @property
    def failures(self) -> list[tuple[int, OmniEmbedError]]:
        """Positions of the others, with the reason."""

    @property
    def truncated(self) -> int:
        """Number of documents longer than the model reads."""


class DocumentEncoder(Protocol):
    """Turns documents into vectors."""

    def encode_documents(self, documents: Sequence[Document]) -> EncodedBatch:
        """Embed what can be embedded, and say why the rest cannot.

        Args:
            documents: documents of any kinds.

        Returns:
            Vectors, and a typed error for every document without one.
        """


def index(
    scan: Scan, store: Store, encoder: DocumentEncoder, *, progress: Progress | None = None
) -> IndexReport:
    """Bring a store up to date with a scan.

    Documents of sources that vanished are removed; those of unreadable sources are kept.

    Args:
        scan: sources as they are now.
        store: where documents go.
        encoder: the base.
        progress: told after every source.

    Returns:
        What was done.

    Raises:
        SourceNotFoundError: when nothing was found, and nothing stored has vanished.
        FingerprintMismatchError: when the store belongs to another base; nothing is read.
        StoreError: when a write fails; what was committed before stays.
    """
    started = time.monotonic()
    if scan.missing and not (scan.scope and any(map(scan.scope, store.sources()))):
        raise SourceNotFoundError(scan.missing)
    run = _Run(store, encoder)
    for done, item in enumerate(scan.sources, 1):
        run.add(item)
        if progress is not None:
            progress(done, scan.total)
    run.finish(scan.scope)
    return run.report(time.monotonic() - started)


@dataclass
class _OpenSource:
    """A source whose documents are being written.

    Attributes:
        uri: of the source.
        digest: of its content.
        parts: number of its documents that have something to embed.
        waiting: number of its documents that are still in line.
        looked_up: True when ``stored`` and ``vectors`` are filled in.
        stored: what the store held of it before, by id.
        vectors: those of ``stored``, by content hash.
    """

    uri: str
    digest: str
    parts: int
    waiting: int = 0
    looked_up: bool = False
    stored: dict[str, StoredPart] = field(default_factory=dict)
    vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Part:
    """A document on its way into the store."""

    document: Document
    source: _OpenSource
    position: int
    content: str

    @property
    def previous(self) -> StoredPart | None:
        """What the store held under its id, from the same source."""
        return self.source.stored.get(self.document.id)

    @property
    def is_current(self) -> bool:
        """True when the store holds it as it is, as after an interrupted run."""
        stored, source = self.previous, self.source
        return stored is not None and (
            (stored.content, stored.digest, stored.part, stored.parts)
            == (self.content, source.digest, self.position, source.parts)
        )

    def row(self, vector: NDArray[np.float32]) -> Row:
        """Return what is written to the store."""
        source = self.source
        return Row(
            self.document,
            vector,
            source=source.uri,
            digest=source.digest,
            parts=source.parts,
            part=self.position,
            content=self.content,
        )


class _Run:
    """One indexing run."""

    def __init__(self, store: Store, encoder: DocumentEncoder) -> None:
        self._store = store
        self._encoder = encoder
        self._known: dict[str, SourceState] = store.sources()
        self._seen: dict[str, str] = {}  # digests
        self._unchanged: set[str] = set()
        self._unreadable: set[str] = set()
        self._emptied: list[str] = []
        self._ids: set[str] = set()
        self._line: list[_Part] = []
        self._counts: Counter[str] = Counter()
        self._failed: list[Failure] = []
        self._skipped: list[Failure] = []
        self._commits = 0
        self._next_maintenance = _FIRST_MAINTENANCE

    def report(self, seconds: float) -> IndexReport:
        """Say what was done."""
        return IndexReport(
            **self._counts, failed=self._failed, skipped=self._skipped, seconds=seconds
        )

    def add(self, item: Source | Failure) -> None:
        """Take the next item of the scan."""
        uri = clean(item.uri)
        if isinstance(item, Failure):
            self._give_up(uri, item.error)
            return
        if uri in self._seen:
            self._repeated(uri, item.digest)
            return
        self._seen[uri] = item.digest
        state = self._known.get(uri)
        if state is not None and state.complete and state.digest == item.digest:
            self._unchanged.add(uri)
            self._counts["unchanged"] += state.documents
            return
        try:
            documents = item.read()
        except OmniEmbedError as error:
            self._give_up(uri, error)
        except Exception as error:  # whatever a file does to its reader, the run goes on
            reason = f"{uri} cannot be read: {type(error).__name__}: {error}"
            self._give_up(uri, IngestError(reason))
        else:
            self._queue(uri, item.digest, documents)

    def _repeated(self, uri: str, digest: str) -> None:
        """Report a source that is listed again; a copy of the first does no harm."""
        if digest == self._seen[uri]:
            error = IngestError(f"{uri} is listed twice, with the same content")
            self._skipped.append(Failure(uri, error))
        else:
            self._fail(uri, IngestError(f"{uri} is listed twice; the first one was indexed"))

    def finish(self, scope: Callable[[str], bool] | None) -> None:
        """Write the rest, remove what vanished, and look after the table."""
        while self._line:
            self._commit()
        gone = [uri for uri in self._emptied if uri in self._known]
        if scope is not None:
            gone += [uri for uri in self._known if self._vanished(uri) and scope(uri)]
        if gone:
            self._counts["removed"] += self._store.delete_sources(gone)
            self._commits += 1
        if self._commits:
            self._maintain()

    def _vanished(self, uri: str) -> bool:
        """Tell whether the scan passed over a source; one in an unreadable folder did not go."""
        return uri not in self._seen and self._unreadable.isdisjoint(_folders(uri))

    def _give_up(self, uri: str, error: OmniEmbedError) -> None:
        """Report a source without documents; what was stored of it goes only if it is empty."""
        self._seen.setdefault(uri, "")
        if isinstance(error, _PASSED_OVER):
            self._emptied.append(uri)
        else:
            self._unreadable.add(uri.rstrip("/\\"))
        self._fail(uri, error)

    def _fail(self, place: str, error: OmniEmbedError) -> None:
        reports = self._skipped if isinstance(error, _PASSED_OVER) else self._failed
        reports.append(Failure(place, error))

    def _queue(self, uri: str, digest: str, documents: Sequence[Document]) -> None:
        """Put the documents of a source in line, and write full batches."""
        if not documents:
            self._give_up(uri, EmptyInputError(f"{uri} holds nothing to index"))
            return
        source = _OpenSource(uri, digest, parts=len(documents))
        for position, given in enumerate(documents):
            document = self._accepted(given, f"{uri}#{position}")
            if document is not None:
                self._line.append(_Part(document, source, position, content_hash(document)))
                source.waiting += 1
        while len(self._line) >= BATCH:
            self._commit()

    def _accepted(self, document: Document, default_id: str) -> Document | None:
        """Return a document as it will be stored; report it if it cannot be."""
        try:
            check_document(document)
            document = replace(document, id=clean(document.id) or default_id)
            if document.id in self._ids:
                raise IngestError(_TAKEN.format(document.id))
        except OmniEmbedError as error:
            self._fail(str(document.location), error)
            return None
        self._ids.add(document.id)
        return document

    def _commit(self) -> None:
        """Embed and write the next documents in line."""
        batch, self._line = self._line[:BATCH], self._line[BATCH:]
        self._look_up(batch)
        owners = self._owners(batch)
        parts = [part for part in batch if self._may_take(part, owners)]
        vectors = self._vectors(parts)
        rows, counts = [], Counter[str]()
        for part in parts:
            vector = vectors.get(part.document.id)
            if vector is None:
                continue
            counts[_outcome(part, owners)] += 1
            if not part.is_current:
                rows.append(part.row(vector))
        for part in batch:
            part.source.waiting -= 1
        sources = {part.source.uri: part.source for part in batch}
        outdated = [name for source in sources.values() for name in self._outdated(source)]
        if rows or outdated:
            self._store.upsert(rows, remove=outdated)
            self._commits += 1
        self._counts.update(counts, removed=len(outdated))
        if self._commits >= self._next_maintenance:
            # Each round merges all that was written so far; doubling keeps the sum linear.
            self._next_maintenance *= 2
            self._maintain()

    def _look_up(self, batch: Sequence[_Part]) -> None:
        """Fetch what the store holds of the sources in a batch, once for each."""
        sources = {part.source.uri: part.source for part in batch if not part.source.looked_up}
        for source in sources.values():
            source.looked_up = True
        for stored in self._store.parts_of(self._known.keys() & sources.keys()):
            source = sources[stored.source]
            source.vectors[stored.content] = stored.vector
            source.stored[stored.id] = stored

    def _owners(self, batch: Sequence[_Part]) -> Mapping[str, str]:
        """Find documents of the batch that the store holds from another source."""
        if not self._known:
            return {}
        return self._store.owners(part.document.id for part in batch if part.previous is None)

    def _may_take(self, part: _Part, owners: Mapping[str, str]) -> bool:
        """Tell whether a document may replace one of another source; report it if not."""
        owner = owners.get(part.document.id)
        if owner is None or owner == part.source.uri:
            return True
        if owner in self._unchanged:
            self._fail(part.document.location, IngestError(_TAKEN.format(part.document.id)))
            return False
        if owner in self._known:
            # Should it turn up later in this run, it is read again, and the clash reported.
            self._known[owner] = replace(self._known[owner], complete=False)
        return True

    def _vectors(self, parts: Sequence[_Part]) -> dict[str, NDArray[np.float32]]:
        """Collect vectors by document id: stored ones, and new ones from the encoder."""
        vectors = {}
        new = []
        for part in parts:
            stored = part.source.vectors.get(part.content)
            if stored is None:
                new.append(part)
            else:
                vectors[part.document.id] = stored
        if new:
            vectors.update(self._embed(new))
        return vectors

    def _embed(self, parts: Sequence[_Part]) -> Iterator[tuple[str, NDArray[np.float32]]]:
        encoded = self._encoder.encode_documents([part.document for part in parts])
        self._counts["truncated"] += encoded.truncated
        for row, error in encoded.failures:
            self._fail(parts[row].document.location, error)
            if isinstance(error, EmptyInputError):
                parts[row].source.parts -= 1  # complete without it
        for row, vector in zip(encoded.kept, encoded.vectors, strict=True):
            document = parts[row].document
            try:
                yield document.id, check_vector(vector, self._store.base.dim, document.id)
            except InputError as error:
                self._fail(document.location, error)

    def _outdated(self, source: _OpenSource) -> Iterator[str]:
        """List what the store holds of a source beyond its last document."""
        if source.waiting == 0:
            yield from (name for name in source.stored if name not in self._ids)

    def _maintain(self) -> None:
        try:
            self._store.optimize()
        except StoreError as error:
            message = f"all documents are safe, but maintenance failed, run it again: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)


def _outcome(part: _Part, owners: Mapping[str, str]) -> str:
    """Name what a report counts a written document as."""
    if part.content in part.source.vectors:
        return "unchanged"
    return "added" if part.previous is None and part.document.id not in owners else "updated"


def _folders(uri: str) -> Iterator[str]:
    """List the folders that a path lies in."""
    return (uri[: match.start()] for match in re.finditer(r"[/\\]", uri))
