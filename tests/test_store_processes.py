"""Several processes write one store."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from store_kit import embed, make_row, open_store

from omniembed.types import Document

WRITERS = 3
ROUNDS = 8
SHARED = 20


def upsert_the_same(uri: str, writer: int) -> None:
    """Upsert ids that every writer uses, from the very creation of the table on."""
    store = open_store(uri)
    for turn in range(ROUNDS):
        rows = [
            make_row(Document(f"writer {writer}", id=f"{turn}-{n}"), source=f"{turn}")
            for n in range(SHARED)
        ]
        rows.append(make_row(Document("own", id=f"own-{writer}-{turn}")))
        store.upsert(rows, remove=[f"own-{writer}-{turn - 1}"] if turn % 2 else [])
        assert store.search(embed("own"), top_k=1)
        if turn == ROUNDS // 2:
            store.optimize()


def test_concurrent_upserts_keep_ids_unique(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    uri = str(tmp_path / "store.lance")
    writers = [context.Process(target=upsert_the_same, args=(uri, n)) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0] * WRITERS
    import lancedb

    names = lancedb.connect(uri).open_table("documents").search().select(["id"]).to_arrow()["id"]
    found = sorted(names.to_pylist())
    shared = [f"{turn}-{n}" for turn in range(ROUNDS) for n in range(SHARED)]
    own = [f"own-{n}-{turn}" for n in range(WRITERS) for turn in range(1, ROUNDS, 2)]
    assert found == sorted(shared + own)
