"""What is written comes back as it was, and what cannot be stored is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from store_kit import DIM, embed, fill, ids, make_row, open_store

from omniembed.errors import (
    FingerprintMismatchError,
    InputError,
    InputTypeError,
    StoreError,
)
from omniembed.store import Row, Store, content_hash
from omniembed.types import Document, Kind

NASTY = [
    "",
    " ",
    "\0",
    "a\0b",
    "'; DROP TABLE documents; --",
    'say "hi" \\',
    "שלום",
    "👩‍👩‍👧",
    "日本語",
    "\x1f",
    "x" * 100_000,
]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def test_nothing_is_opened_or_made_before_it_is_used(tmp_path: Path) -> None:
    store = open_store(tmp_path / "deep" / "x.lance")
    assert not store.exists()
    assert store.version == 0
    assert store.sources() == {}
    for read in (
        lambda: store.search(embed("a")),
        lambda: store.search_text("a"),
        lambda: store.hybrid(embed("a"), "a"),
        store.count,
        store.info,
        store.optimize,
        lambda: store.delete(["a"]),
    ):
        with pytest.raises(StoreError, match=r"x\.lance.*omni\.index"):
            read()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", NASTY)
def test_every_text_field_comes_back(tmp_path: Path, text: str) -> None:
    store = open_store(tmp_path)
    document = Document(
        text,
        kind=Kind.CODE,
        id=f"id {text}",
        title=text,
        uri=text,
        language=text,
        symbol=text,
        start_line=3,
        end_line=2**40,
        metadata={text: text, "n": [1, 1.0, None, True, {"a": text}]},
    )
    fill(store, [document, Document("other", id="other")])
    assert store.get([document.id]) == [document]
    assert (
        store.count(
            where={"id": document.id, "uri": text, f"metadata.{text or 'n'}": {"$exists": True}}
        )
        == 1
    )
    store.upsert([make_row(document)])
    assert store.count() == 2


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    metadata=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), json_values, max_size=4
    )
)
def test_metadata_comes_back_as_json_would_give_it(
    tmp_path: Path, metadata: dict[str, Any]
) -> None:
    store = open_store(tmp_path)
    fill(store, [Document("a", id="a", metadata=metadata)])
    assert dict(store.get(["a"])[0].metadata) == json.loads(json.dumps(metadata))


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": float("nan")},
        {"a": object()},
        {1: "a"},
        {"a": {2: "b"}},
        {"a": {1, 2}},
        {"a": Path("x")},
    ],
)
def test_metadata_that_json_cannot_hold_is_refused(
    tmp_path: Path, metadata: dict[Any, Any]
) -> None:
    store = open_store(tmp_path)
    with pytest.raises(InputError, match="metadata"):
        fill(store, [Document("a", id="a", metadata=metadata)])
    assert not store.exists()


def test_file_names_that_are_not_utf8_are_kept_apart(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, [Document("one", id="caf\udce9"), Document("two", id="caf\udcea")])
    assert store.count() == 2
    assert [d.text for d in store.get(["caf\udce9"])] == ["one"]
    assert store.delete(["caf\udcea"]) == 1


def test_a_picture_without_a_path_comes_back_as_a_thumbnail(tmp_path: Path) -> None:
    store = open_store(tmp_path / "s")
    deep = Image.fromarray(np.full((600, 1200), 30_000, np.uint16))
    clear = Image.new("RGBA", (10, 10), (255, 0, 0, 0))
    path = tmp_path / "gone.png"
    fill(
        store,
        [
            Document("deep", kind=Kind.IMAGE, id="deep", image=deep),
            Document("clear", kind=Kind.IMAGE, id="clear", image=clear),
            Document("path", kind=Kind.IMAGE, id="path", image=path),
        ],
    )
    clear_back, deep_back, path_back = (d.image for d in store.get(["deep", "clear", "path"]))
    assert path_back == path
    assert isinstance(deep_back, Image.Image)
    assert deep_back.size == (256, 128)
    assert abs(int(np.asarray(deep_back).mean()) - 30_000 // 257) <= 2
    assert isinstance(clear_back, Image.Image)
    assert np.asarray(clear_back.convert("RGB")).min() > 250, "transparency lies on white"


def test_content_hash_follows_what_is_embedded(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.new("RGB", (2, 2), "red").save(path)
    red = content_hash(Document(kind=Kind.IMAGE, image=path))
    Image.new("RGB", (2, 2), "blue").save(path)
    assert content_hash(Document(kind=Kind.IMAGE, image=path)) != red
    assert content_hash(Document("a", start_line=1)) == content_hash(Document("a", start_line=2))
    assert content_hash(Document("a")) != content_hash(Document("a", kind=Kind.CODE))
    assert content_hash(Document("b", title="a")) != content_hash(Document("a", title="b"))
    missing = Document(kind=Kind.IMAGE, image=tmp_path / "missing.png")
    assert content_hash(missing) == content_hash(missing)


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (np.full(DIM, np.nan, np.float32), "norm nan"),
        (np.zeros(DIM, np.float32), "norm 0"),
        (np.full(DIM, np.inf, np.float32), "norm inf"),
        (np.ones(DIM, np.float32), "unit norm"),
        (embed("a")[:-1], "shape"),
        (embed("a")[None], "shape"),
    ],
)
def test_a_bad_vector_writes_nothing(tmp_path: Path, vector: Any, message: str) -> None:
    store = open_store(tmp_path)
    fill(store, [Document("good", id="good")])
    version = store.version
    rows = [make_row(Document("fine", id="fine")), Row(Document("bad", id="bad"), vector, "s", "d")]
    with pytest.raises(InputError, match=message):
        store.upsert(rows)
    assert store.version == version


def test_bad_documents_are_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for document in (Document("a", id="a", start_line=0), Document("a", id="a", end_line=2**63)):
        with pytest.raises(InputError, match="_line"):
            fill(store, [document])
    with pytest.raises(InputTypeError, match="title"):
        store.upsert([Row(Document("a", id="a", title=3), embed("a"), "s", "d")])  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="start_line"):
        fill(store, [Document("a", id="a", start_line=1.5)])  # type: ignore[arg-type]
    for same in ([Document("a", id="a"), Document("b", id="a")], [Document("a")]):
        with pytest.raises(InputError, match="id"):
            fill(store, same)


def test_upsert_replaces_and_removes_in_one_commit(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, [Document(f"old {n}", id=f"{n}") for n in range(5)])
    version = store.version
    store.upsert([make_row(Document("new", id="0"))], remove=["0", "3", "4", "missing"])
    assert store.version == version + 1
    assert [(d.id, d.text) for d in store.get("01234")] == [
        ("0", "new"),
        ("1", "old 1"),
        ("2", "old 2"),
    ]
    store.upsert([], remove=["1"])
    assert store.count() == 2


def test_deleting(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, [Document("a", id=f"a{n}", language="python") for n in range(3)], source="a")
    fill(store, [Document("b", id=f"b{n}") for n in range(3)], source="b'; --")
    assert store.delete(["a0", "x' OR '1'='1"]) == 1
    assert store.delete_where({"language": "python' OR 1=1 --"}) == 0
    assert store.delete_where({"language": "python", "id": {"$ne": "a1"}}) == 1
    assert store.delete_sources(["b'; --"]) == 3
    assert ids(store.search(embed("a"))) == ["a1"]
    for empty in ({}, None):
        with pytest.raises(InputError, match="everything"):
            store.delete_where(empty)  # type: ignore[arg-type]


def test_another_base_is_refused_for_reads_and_writes(tmp_path: Path) -> None:
    fill(open_store(tmp_path), [Document("a", id="a")])
    other = Store(tmp_path, dim=DIM, fingerprint="other", model="other-model")
    wide = Store(tmp_path, dim=DIM + 1, fingerprint="bag", model="bag-of-words")
    for store in (other, wide):
        for use in (store.exists, store.count, store.info, store.sources, store.optimize):
            with pytest.raises(FingerprintMismatchError, match=r"bag-of-words.*new store"):
                use()
    with pytest.raises(FingerprintMismatchError):
        fill(other, [Document("b", id="b")])
    assert open_store(tmp_path).count() == 1


def test_foreign_and_broken_stores_give_typed_errors(tmp_path: Path) -> None:
    import lancedb

    file = tmp_path / "file"
    file.write_text("not a folder")
    with pytest.raises(StoreError, match="file"):
        fill(open_store(file), [Document("a", id="a")])
    lancedb.connect(tmp_path / "foreign").create_table("documents", [{"id": "a"}])
    with pytest.raises(StoreError, match="did not write"):
        open_store(tmp_path / "foreign").count()
    fill(open_store(tmp_path / "broken"), [Document("a", id="a")])
    for part in (tmp_path / "broken").rglob("*.lance"):
        if part.is_file():
            part.write_bytes(b"garbage")
    with pytest.raises(StoreError, match="broken"):
        open_store(tmp_path / "broken").search(embed("a"))


def test_info(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, [Document("a", id=f"{n}", kind=Kind.CODE if n else Kind.TEXT) for n in range(5)])
    info = store.info()
    assert (info.rows, info.sources, info.kinds) == (5, 1, {"code": 4, "text": 1})
    assert (info.model, info.fingerprint, info.dim) == ("bag-of-words", "bag", DIM)
    assert info.bytes == sum(f.stat().st_size for f in tmp_path.rglob("*") if f.is_file())
    assert (info.vector_index, info.unindexed_vectors) == ("none", 5)
    assert info.version == store.version
    json.dumps(info.__dict__)
