"""A run that is killed or interrupted keeps what it committed, and the next one goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from store_kit import BagOfWords, Encoded, everything, file_source, open_store, scan_of

from omniembed.indexer import BATCH, index
from omniembed.ingest import Source

FILES = 400


def sources() -> list[Source]:
    """Small files, and one that spans several batches."""
    files = [file_source(f"/f/{n}", [f"file {n} part {p}" for p in range(3)]) for n in range(FILES)]
    files.insert(100, file_source("/f/big", [f"big part {p}" for p in range(2 * BATCH)]))
    return files


TOTAL = 3 * FILES + 2 * BATCH

CHILD = """
import sys, time
sys.path.insert(0, {tests!r})
from store_kit import BagOfWords, everything, open_store, scan_of
from test_indexer_resume import sources
from omniembed.indexer import index

class Announcing(BagOfWords):
    def encode_documents(self, documents):
        encoded = super().encode_documents(documents)
        print("batch", flush=True)
        time.sleep(0.05)
        return encoded

index(scan_of(sources(), everything), open_store({uri!r}), Announcing())
print("done", flush=True)
"""


@pytest.mark.parametrize("batches", [1, 3, 5])
def test_kill_and_resume(tmp_path: Path, batches: int) -> None:
    uri = str(tmp_path / "store.lance")
    script = CHILD.format(tests=str(Path(__file__).parent), uri=uri)
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for _ in range(batches):
        assert child.stdout.readline() == "batch\n"
    child.send_signal(signal.SIGKILL)
    child.wait(30)
    child.stdout.close()

    store = open_store(uri)
    committed = store.count() if store.exists() else 0
    assert (batches - 1) * BATCH <= committed < TOTAL
    assert committed % BATCH == 0, "a batch is committed whole or not at all"
    assert sum(state.documents for state in store.sources().values()) == committed

    encoder = BagOfWords()
    report = index(scan_of(sources(), everything), store, encoder)
    assert len(encoder.seen) == TOTAL - committed, "only what was missing is embedded"
    assert (report.added, report.unchanged) == (TOTAL - committed, committed)
    assert (report.failed, report.removed) == ([], 0)
    assert store.count() == TOTAL
    assert all(state.complete for state in store.sources().values())
    assert index(scan_of(sources(), everything), store, encoder).unchanged == TOTAL


def test_a_kill_while_a_changed_source_is_half_written(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    old = file_source("/big", [f"old {p}" for p in range(3 * BATCH)])
    new = file_source("/big", [f"new {p}" for p in range(2 * BATCH)])
    index(scan_of([old]), store, BagOfWords())
    with pytest.raises(KeyboardInterrupt):
        index(scan_of([new]), store, Interrupting(after=1))
    assert not store.sources()["/big"].complete
    encoder = BagOfWords()
    report = index(scan_of([new]), store, encoder)
    assert len(encoder.seen) == BATCH
    assert (report.unchanged, report.updated, report.removed) == (BATCH, BATCH, BATCH)
    assert store.count() == 2 * BATCH
    assert store.sources()["/big"].complete


class Interrupting(BagOfWords):
    """Is interrupted in a later batch."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def encode_documents(self, documents: Any) -> Encoded:
        if self.after == 0:
            raise KeyboardInterrupt
        self.after -= 1
        return super().encode_documents(documents)


def test_an_interrupt_keeps_what_was_embedded_and_removes_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    gone = file_source("/f/gone", ["gone"])
    index(scan_of([gone]), store, BagOfWords())
    encoder = Interrupting(after=2)
    with pytest.raises(KeyboardInterrupt):
        index(scan_of(sources(), everything), store, encoder)
    assert store.count() == 1 + len(encoder.seen) == 1 + 2 * BATCH
    report = index(scan_of(sources(), everything), store, BagOfWords())
    assert (report.added, report.removed) == (TOTAL - 2 * BATCH, 1)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Heed SIGINT, which a shell ignores in what it starts in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_real_signal_keeps_the_store_whole(tmp_path: Path) -> None:
    store = open_store(tmp_path)

    class Signalled(BagOfWords):
        """Sends the signal so that it arrives while the third batch is being written."""

        def encode_documents(self, documents: Any) -> Encoded:
            if len(self.seen) >= 3 * BATCH:
                time.sleep(60)  # a busy machine may deliver it late, but never not at all
            encoded = super().encode_documents(documents)
            if len(self.seen) == 3 * BATCH:
                threading.Timer(0.005, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            return encoded

    with pytest.raises(KeyboardInterrupt):
        index(scan_of(sources(), everything), store, Signalled())
    committed = store.count()  # the commit in flight may land after this
    assert committed >= 2 * BATCH
    assert committed % BATCH == 0
    encoder = BagOfWords()
    index(scan_of(sources(), everything), store, encoder)
    assert len(encoder.seen) <= TOTAL - committed
    assert store.count() == TOTAL
    assert all(state.complete for state in store.sources().values())


def test_two_runs_at_once_leave_one_of_everything(tmp_path: Path) -> None:
    uri = str(tmp_path / "store.lance")
    script = CHILD.format(tests=str(Path(__file__).parent), uri=uri)
    runs = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL)
        for _ in range(2)
    ]
    assert [run.wait(120) for run in runs] == [0, 0]
    store = open_store(uri)
    assert store.count() == TOTAL
    assert all(state.complete for state in store.sources().values())
    version = store.version
    assert index(scan_of(sources(), everything), store, BagOfWords()).unchanged == TOTAL
    assert store.version == version
