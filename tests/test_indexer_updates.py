"""A second run does what changed, and nothing else."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_kit import (
    BagOfWords,
    Encoded,
    embed,
    everything,
    file_source,
    fill,
    ids,
    open_store,
    scan_of,
)

from omniembed.errors import (
    EmptyInputError,
    FingerprintMismatchError,
    ImageDecodeError,
    IngestError,
    InputError,
    StoreError,
    UnsupportedFileError,
)
from omniembed.indexer import BATCH, index
from omniembed.ingest import Source
from omniembed.store import Store
from omniembed.types import Document, Failure, IndexReport


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "store.lance")


@pytest.fixture
def encoder() -> BagOfWords:
    return BagOfWords()


def counts(report: IndexReport) -> tuple[int, int, int, int]:
    return (report.added, report.updated, report.unchanged, report.removed)


def stored(store: Store) -> dict[str, str]:
    found = store.search(embed("any"), top_k=10_000)
    return {document.id: document.text for _, document in found}


def failures(report: IndexReport) -> list[tuple[str, type]]:
    return [(failure.uri, type(failure.error)) for failure in report.failed]


def test_an_unchanged_source_is_not_even_read(store: Store, encoder: BagOfWords) -> None:
    reads: list[str] = []
    files = [file_source(f"/f/{n}", [f"text {n} {c}" for c in range(3)], reads) for n in range(300)]
    progress: list[tuple[int, int | None]] = []
    report = index(
        scan_of(files, everything), store, encoder, progress=lambda *step: progress.append(step)
    )
    assert counts(report) == (900, 0, 0, 0)
    assert report.seconds > 0
    assert progress == [(n, None) for n in range(1, 301)]
    assert stored(store) == {f"/f/{n}#{c}": f"text {n} {c}" for n in range(300) for c in range(3)}
    version, reads[:], encoder.seen[:] = store.version, [], []
    report = index(scan_of(files, everything), store, encoder)
    assert counts(report) == (0, 0, 900, 0)
    assert (reads, encoder.seen, store.version) == ([], [], version)


def test_changes_are_embedded_by_chunk(store: Store, encoder: BagOfWords) -> None:
    index(
        scan_of([file_source("/a", ["one", "two", "three"]), file_source("/b", ["b"])]),
        store,
        encoder,
    )
    encoder.seen.clear()
    changed = file_source("/a", ["new", "one", "two", "three"])
    report = index(scan_of([changed, file_source("/b", ["b"])]), store, encoder)
    assert encoder.seen == ["/a#0"]
    assert counts(report) == (0, 1, 4, 0)
    assert stored(store) == {
        "/a#0": "new",
        "/a#1": "one",
        "/a#2": "two",
        "/a#3": "three",
        "/b#0": "b",
    }
    assert [d.start_line for _, d in store.search(embed("three"), top_k=1)] == [4], "lines moved"
    for score, document in store.search(embed("two"), top_k=1):
        assert (document.text, score) == ("two", pytest.approx(1.0)), "vectors moved along"
    report = index(scan_of([file_source("/a", ["one"])]), store, encoder)
    assert counts(report) == (0, 0, 1, 3)
    assert stored(store) == {"/a#0": "one", "/b#0": "b"}
    assert encoder.seen == ["/a#0"]


def test_what_vanished_is_removed_within_the_scope_only(store: Store, encoder: BagOfWords) -> None:
    files = [file_source(uri, [uri]) for uri in ("/a/1", "/a/2", "/a/x/3", "/b/1")]
    index(scan_of(files), store, encoder)
    report = index(scan_of(files[:1], None), store, encoder)
    assert counts(report) == (0, 0, 1, 0)
    report = index(scan_of(files[:1], lambda uri: uri.startswith("/a/")), store, encoder)
    assert counts(report) == (0, 0, 1, 2)
    assert set(stored(store)) == {"/a/1#0", "/b/1#0"}
    assert counts(index(scan_of([], everything), store, encoder)) == (0, 0, 0, 2)
    assert store.count() == 0
    assert counts(index(scan_of(files), store, encoder)) == (4, 0, 0, 0)


def test_what_cannot_be_read_is_kept(store: Store, encoder: BagOfWords) -> None:
    index(
        scan_of([file_source(uri, [uri]) for uri in ("/a", "/b", "/c/1", "/c/2", "/d")]),
        store,
        encoder,
    )

    def broken() -> list[Document]:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")

    def typed() -> list[Document]:
        raise IngestError("damaged")

    scan = scan_of(
        [
            Source("/a", "new", broken),
            Source("/b", "new", typed),
            Failure("/c/", IngestError("folder cannot be read")),
            file_source("/e", ["fine"]),
        ],
        everything,
    )
    report = index(scan, store, encoder)
    assert failures(report) == [("/a", IngestError), ("/b", IngestError), ("/c/", IngestError)]
    assert "UnicodeDecodeError" in str(report.failed[0].error)
    assert counts(report) == (1, 0, 0, 1)
    assert set(stored(store)) == {"/a#0", "/b#0", "/c/1#0", "/c/2#0", "/e#0"}


def test_what_became_empty_is_removed_and_named(store: Store, encoder: BagOfWords) -> None:
    index(scan_of([file_source(uri, [uri]) for uri in ("/a", "/b", "/c", "/d")]), store, encoder)

    def empty() -> list[Document]:
        raise EmptyInputError("holds nothing")

    scan = scan_of(
        [
            Source("/a", "new", list),
            Source("/b", "new", empty),
            Failure("/c", UnsupportedFileError("binary")),
            file_source("/d", ["!", "word"]),
        ]
    )
    report = index(scan, store, encoder)
    assert [failure.uri for failure in report.skipped] == ["/a", "/b", "/c", "/d:1"]
    assert report.failed == []
    assert counts(report) == (1, 0, 0, 3)
    assert set(stored(store)) == {"/d#0", "/d#1"}, "the old text of a part without words stays"


def test_a_source_with_a_part_without_words_is_complete(store: Store, encoder: BagOfWords) -> None:
    reads: list[str] = []
    source = file_source("/a", ["one", "...", "two"], reads)
    report = index(scan_of([source]), store, encoder)
    assert (len(report.skipped), counts(report)) == (1, (2, 0, 0, 0))
    assert counts(index(scan_of([source]), store, encoder)) == (0, 0, 2, 0)
    assert reads == ["/a"]


def test_a_document_that_fails_does_not_stop_the_others(store: Store) -> None:
    reads: list[str] = []
    encoder = BagOfWords(
        refuse=lambda document: ImageDecodeError("damaged") if "bad" in document.text else None
    )
    source = file_source("/a", ["one", "bad", "two"], reads)
    report = index(scan_of([source]), store, encoder)
    assert failures(report) == [("/a:2", ImageDecodeError)]
    assert (counts(report), encoder.seen) == ((2, 0, 0, 0), ["/a#0", "/a#2"])
    version = store.version
    report = index(scan_of([source]), store, encoder)
    assert failures(report) == [("/a:2", ImageDecodeError)], "tried again, and said again"
    assert (reads, encoder.seen) == (["/a", "/a"], ["/a#0", "/a#2"])
    assert (counts(report), store.version) == ((0, 0, 2, 0), version), "nothing to write"
    encoder.refuse = lambda document: None
    assert counts(index(scan_of([source]), store, encoder)) == (1, 0, 2, 0)


def test_a_bad_vector_fails_its_document_only(store: Store) -> None:
    class Careless(BagOfWords):
        def encode_documents(self, documents: Any) -> Encoded:
            encoded = super().encode_documents(documents)
            encoded.vectors[1] = np.nan
            encoded.truncated = 1
            return encoded

    report = index(scan_of([file_source("/a", ["one", "two", "three"])]), store, Careless())
    assert failures(report) == [("/a:2", InputError)]
    assert (report.truncated, store.count()) == (1, 2)


def test_documents_that_cannot_be_stored_are_reported(store: Store, encoder: BagOfWords) -> None:
    documents = [
        Document("good", id="good"),
        Document("bad", id="bad", metadata={"a": object()}),
        Document("line", id="line", start_line=-1),
        Document("no id"),
    ]
    report = index(scan_of([Source("/s", "d", lambda: documents)]), store, encoder)
    assert failures(report) == [("bad", InputError), ("line:-1", InputError)]
    assert stored(store) == {"good": "good", "/s#3": "no id"}


def record(name: str, text: str) -> Source:
    return Source(name, f"digest of {text}", lambda: [Document(text, id="same", uri=name)])


def test_an_id_used_twice_in_a_run_is_reported(store: Store, encoder: BagOfWords) -> None:
    first, second = record("/1", "first"), record("/2", "second")
    other = Source("/1", "other", lambda: [Document("other", id="other")])
    report = index(scan_of([first, second, first, other]), store, encoder)
    assert failures(report) == [("/2", IngestError), ("/1", IngestError)]
    assert [failure.uri for failure in report.skipped] == ["/1"], "the same again does no harm"
    assert (stored(store), counts(report)) == ({"same": "first"}, (1, 0, 0, 0))
    for order in ([first, second], [second, first]):
        report = index(scan_of(order), store, encoder)
        assert len(report.failed) == 1, "also when one of the two is unchanged"
        assert store.count() == 1
    report = index(scan_of([second]), store, encoder)
    assert (report.failed, stored(store)) == ([], {"same": "second"}), "alone it replaces the other"


def test_ids_that_are_not_utf8_are_found_again(store: Store, encoder: BagOfWords) -> None:
    files = [file_source("/caf\udce9", ["one"]), file_source("/caf\udcea", ["two"])]
    assert counts(index(scan_of(files, everything), store, encoder)) == (2, 0, 0, 0)
    assert counts(index(scan_of(files, everything), store, encoder)) == (0, 0, 2, 0)
    assert counts(index(scan_of(files[:1], everything), store, encoder)) == (0, 0, 1, 1)


def test_sources_larger_than_a_batch(store: Store, encoder: BagOfWords) -> None:
    chunks = [f"chunk {n}" for n in range(2 * BATCH + 50)]
    assert index(scan_of([file_source("/big", chunks)]), store, encoder).added == len(chunks)
    encoder.seen.clear()
    shifted = ["new", *chunks[: BATCH + 10], *chunks[BATCH + 20 :]]
    report = index(scan_of([file_source("/big", shifted)]), store, encoder)
    assert encoder.seen == ["/big#0"], "vectors are kept though batches overwrite each other's ids"
    assert counts(report) == (0, 1, len(chunks) - 10, 9)
    assert stored(store) == {f"/big#{n}": chunk for n, chunk in enumerate(shifted)}
    states = store.sources()
    assert states["/big"].complete


def test_another_base_is_refused_before_anything_is_read(store: Store, encoder: BagOfWords) -> None:
    fill(store, [Document("a", id="a")])
    other = Store(store.uri, dim=8, fingerprint="other", model="other")
    reads: list[str] = []
    with pytest.raises(FingerprintMismatchError):
        index(scan_of([file_source("/a", ["a"], reads)]), other, encoder)
    assert reads == []


def test_failed_maintenance_is_a_warning(
    store: Store, encoder: BagOfWords, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lancedb.table import LanceTable

    def full(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(LanceTable, "optimize", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        report = index(scan_of([file_source("/a", ["a"])]), store, encoder)
    assert report.added == 1


def test_a_failed_write_is_an_error_and_keeps_the_rest(
    store: Store, encoder: BagOfWords, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lancedb.merge import LanceMergeInsertBuilder

    execute = LanceMergeInsertBuilder.execute
    writes: list[int] = []

    def fail_later(self: Any, data: Any, **options: Any) -> Any:
        writes.append(data.num_rows)
        if len(writes) == 2:
            raise OSError("No space left on device")
        return execute(self, data, **options)

    files = [file_source(f"/{n}", ["text"]) for n in range(2 * BATCH)]
    monkeypatch.setattr(LanceMergeInsertBuilder, "execute", fail_later)
    with pytest.raises(StoreError, match="No space left"):
        index(scan_of(files), store, encoder)
    assert store.count() == BATCH
    assert counts(index(scan_of(files), store, encoder)) == (BATCH, 0, BATCH, 0)


def test_lost_races_are_tried_again(
    store: Store, encoder: BagOfWords, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lancedb.merge import LanceMergeInsertBuilder

    execute = LanceMergeInsertBuilder.execute
    tries: list[int] = []

    def lose(self: Any, data: Any, **options: Any) -> Any:
        tries.append(1)
        if len(tries) < 4:
            raise OSError("Retryable commit conflict for version 3")
        return execute(self, data, **options)

    monkeypatch.setattr(LanceMergeInsertBuilder, "execute", lose)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    assert index(scan_of([file_source("/a", ["a"])]), store, encoder).added == 1
    monkeypatch.setattr(LanceMergeInsertBuilder, "execute", _always_loses)
    with pytest.raises(StoreError, match="conflict"):
        index(scan_of([file_source("/b", ["b"])]), store, encoder)


def _always_loses(*_: object, **__: object) -> None:
    raise OSError("Too many concurrent writers: commit conflict")


def test_a_long_run_looks_after_the_table_in_between(store: Store, encoder: BagOfWords) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for start in range(0, 40):
            index(scan_of([file_source(f"/{start}", [f"text {start}"])]), store, encoder)
    assert store.info().fragments <= store.policy.small_fragments + 1
    assert store.info().unindexed_words <= 4
    assert len(ids(store.search_text("text", top_k=100))) == 40
