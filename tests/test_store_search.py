"""Vector, word and hybrid search, and the index policy."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_kit import DIM, embed, fill, ids, make_row, open_store

from omniembed.errors import InputError, StoreError
from omniembed.store import IndexPolicy, Store, fuse
from omniembed.types import Document, Kind

EAGER = IndexPolicy(vector_rows=300, small_fragments=3, keep_versions=timedelta(seconds=1))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path)


def random_words(count: int, seed: int = 0) -> list[Document]:
    rng = np.random.default_rng(seed)
    return [
        Document(" ".join(f"w{w}" for w in rng.integers(0, 400, 6)), id=f"{seed}-{n:04d}")
        for n in range(count)
    ]


def by_hand(documents: list[Document], query: Any, top_k: int) -> list[str]:
    scored = [(-float(embed(d.content) @ query), d.id) for d in documents]
    return [name for _, name in sorted(scored)[:top_k]]


def test_search_is_exact_and_scores_are_cosines(store: Store) -> None:
    documents = random_words(200)
    fill(store, documents)
    query = 7.5 * embed("w1 w2 w3")  # cosine does not care for length
    found = store.search(query, top_k=20)
    assert ids(found) == by_hand(documents, embed("w1 w2 w3"), 20)
    by_id = {d.id: d for d in documents}
    for score, document in found:
        assert score == pytest.approx(
            float(embed(by_id[document.id].text) @ embed("w1 w2 w3")), abs=1e-5
        )
    assert len(store.search(query, top_k=10_000)) == 200
    self_score = store.search(embed(documents[0].text), top_k=1)[0][0]
    assert self_score <= 1.0
    assert store.search(-embed(documents[0].text), top_k=200)[-1][0] >= -1.0


def test_equal_scores_are_ordered_by_id(store: Store) -> None:
    for n in (3, 1, 2, 0):
        fill(store, [Document("same words", id=f"{n}", uri=f"{n}")], source=f"{n}")
    assert ids(store.search(embed("same"))) == ["0", "1", "2", "3"]
    assert ids(store.search_text("same")) == ["0", "1", "2", "3"]
    assert ids(store.hybrid(embed("same"), "same")) == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    "vector",
    [
        np.zeros(DIM, np.float32),
        np.full(DIM, np.nan, np.float32),
        np.full(DIM, np.inf, np.float32),
        np.ones(DIM + 1, np.float32),
        np.ones((1, DIM), np.float32),
    ],
)
def test_unusable_query_vectors(store: Store, vector: Any) -> None:
    fill(store, [Document("a", id="a")])
    for search in (store.search, lambda v: store.hybrid(v, "a")):
        with pytest.raises(InputError, match="query vector"):
            search(vector)


@pytest.mark.parametrize("top_k", [0, -1, 10_001, True, 1.0, None, "3"])
def test_unusable_top_k(store: Store, top_k: Any) -> None:
    fill(store, [Document("a", id="a")])
    for search in (
        lambda: store.search(embed("a"), top_k=top_k),
        lambda: store.search_text("a", top_k=top_k),
        lambda: store.hybrid(embed("a"), "a", top_k=top_k),
    ):
        with pytest.raises(InputError, match="top_k"):
            search()


def test_filters_come_before_the_search(store: Store) -> None:
    fill(store, [Document("common words here", id=f"near{n:03d}") for n in range(200)])
    rare = [Document(f"common filler{n}", kind=Kind.TOOL, id=f"far{n}") for n in range(5)]
    fill(store, rare, source="t")
    query = embed("common words here")
    for found in (
        store.search(query, top_k=5, kinds={Kind.TOOL}),
        store.search_text("common words here", top_k=5, kinds={Kind.TOOL}),
        store.hybrid(query, "common words here", top_k=5, where={"kind": "tool"}),
    ):
        assert sorted(ids(found)) == [f"far{n}" for n in range(5)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("zebra", "0"),
        ("ZEBRAS", "0"),
        ("read csv", "1"),
        ("read_csv", "1"),
        ("user name", "2"),
        ("getUserName", "2"),
        ("get_user_name", "2"),
        ("http server", "3"),
        ("検索", "4"),
        ("cafe", "5"),
        ("how to", "6"),
        ("Headline", "7"),
        ('"zebra', "0"),
        ("zebra AND NOT (", "0"),
        ("zebra*~^", "0"),
        ("+zebra -crossing", "0"),
        ("zebra\0", "0"),
        ("text:zebra", "0"),
        ("", ""),
        ("  \n", ""),
        ("!?.,;:'\"()[]{}", ""),
        ("\0", ""),
        ("👩‍👩‍👧", ""),
        ("\udcff", ""),
        ("absent", ""),
        ("zebra " * 100_000, "0"),
        ("x" * 1_000_000, ""),
    ],
)
@pytest.mark.parametrize("indexed", [False, True])
def test_word_search(store: Store, query: str, expected: str, indexed: bool) -> None:
    texts = [
        "a zebra crossing",
        "df = pd.read_csv(path)",
        "def getUserName(self)",
        "class HTTPServer: ...",
        "日本語の検索エンジン",
        "the café",
        "how to be",
    ]
    documents = [Document(text, id=f"{n}") for n, text in enumerate(texts)]
    fill(store, [*documents, Document("below", id="7", title="headline")])
    if indexed:
        assert store.optimize()
        assert store.info().unindexed_words == 0
    found = ids(store.search_text(query))
    assert found[:1] == list(expected)
    hybrid = ids(store.hybrid(embed("below"), query))
    assert len(hybrid) == len(set(hybrid)) == 8


def test_rows_added_after_the_index_are_found_at_once(tmp_path: Path) -> None:
    store = open_store(tmp_path, EAGER)
    fill(store, random_words(400))
    assert store.optimize()
    assert store.info().vector_index == "IvfFlat"
    fill(store, [Document("fresh zebra", id="fresh")], source="fresh")
    assert ids(store.search(embed("fresh zebra"), top_k=1)) == ["fresh"]
    assert ids(store.search_text("zebra")) == ["fresh"]
    store.upsert([make_row(Document("stale giraffe", id="fresh"), "fresh")])
    assert ids(store.search_text("zebra")) == []
    assert ids(store.search_text("giraffe")) == ["fresh"]
    store.delete(["fresh"])
    assert ids(store.search_text("giraffe")) == []
    assert "fresh" not in ids(store.search(embed("stale giraffe"), top_k=401))


def test_index_policy(tmp_path: Path) -> None:
    store = open_store(tmp_path, EAGER)
    fill(store, random_words(200))
    store.optimize()
    assert store.info().vector_index == "none", "exact below the threshold"
    fill(store, random_words(200, seed=1), source="t")
    assert store.optimize()
    info = store.info()
    assert (info.vector_index, info.unindexed_vectors, info.unindexed_words) == ("IvfFlat", 0, 0)
    version = store.version
    assert not store.optimize(), "nothing to do"
    assert store.version == version
    fill(store, random_words(10, seed=2), source="u")
    assert not store.optimize(), "a small tail is searched by hand"
    assert store.info().unindexed_vectors == 10
    fill(store, random_words(100, seed=3), source="v")
    assert store.optimize()
    assert store.info().unindexed_vectors == 0
    for n in range(5):
        fill(store, random_words(1, seed=10 + n), source=f"w{n}")
    before = store.info().fragments
    assert before > 5
    assert store.optimize()
    assert store.info().fragments < before
    assert not any(store.optimize() for _ in range(3)), "comes to rest"


def test_an_indexed_search_never_gives_too_few(tmp_path: Path) -> None:
    store = open_store(tmp_path, EAGER)
    documents = random_words(600)
    fill(store, documents)
    store.optimize()
    query = embed("w1 w2 w3")
    assert len(store.search(query, top_k=600)) == 600
    rare = {"id": {"$in": [d.id for d in documents[::40]]}}
    assert sorted(ids(store.search(query, top_k=50, where=rare))) == [d.id for d in documents[::40]]
    best = by_hand(documents, query, 10)
    assert len(set(best) & set(ids(store.search(query, top_k=10)))) >= 8


def test_an_index_of_another_metric_or_name_is_seen(tmp_path: Path) -> None:
    import lancedb
    from lancedb.index import IvfFlat

    store = open_store(tmp_path, EAGER)
    fill(store, random_words(400))
    database = lancedb.connect(tmp_path, read_consistency_interval=timedelta(0))
    table = database.open_table("documents")
    table.create_index("vector", config=IvfFlat(distance_type="cosine"), name="by_hand")
    version = table.version
    store.optimize()
    names = [index.name for index in table.list_indices() if index.columns == ["vector"]]
    assert names == ["by_hand"], "known by its column, and not built a second time"
    table.drop_index("by_hand")
    table.create_index("vector", config=IvfFlat(distance_type="l2"))
    assert store.optimize()
    (index,) = [index for index in table.list_indices() if index.columns == ["vector"]]
    assert table.index_stats(index.name).distance_type == "cosine"
    assert store.version > version


def test_a_missing_word_index_is_built(store: Store, tmp_path: Path) -> None:
    import lancedb

    fill(store, [Document("zebra", id="a")])
    table = lancedb.connect(tmp_path).open_table("documents")
    (index,) = [index for index in table.list_indices() if index.columns == ["words"]]
    table.drop_index(index.name)
    assert ids(open_store(tmp_path).search_text("zebra")) == ["a"]


def test_failed_maintenance_is_a_typed_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from lancedb.table import LanceTable

    def full(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    fill(store, [Document("a", id="a")])
    monkeypatch.setattr(LanceTable, "optimize", full)
    with pytest.raises(StoreError, match="No space left"):
        store.optimize()
    assert ids(store.search(embed("a"))) == ["a"]


def test_threads_share_a_store(store: Store) -> None:
    fill(store, random_words(50))
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(4):
                name = f"t{number}-{turn}"
                fill(store, [Document(f"thread {name}", id=name)], source=name)
                assert name in ids(store.search(embed(f"thread {name}"), top_k=100))
                assert store.count(where={"id": name}) == 1
                store.search_text("thread")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert store.count() == 50 + 16


def test_other_handles_see_commits_at_once(tmp_path: Path) -> None:
    one, two = open_store(tmp_path), open_store(tmp_path)
    fill(one, [Document("a", id="a")])
    assert two.count() == 1
    fill(one, [Document("b", id="b")], source="b")
    assert ids(two.search(embed("b"), top_k=1)) == ["b"]
    assert two.version == one.version
    two.delete(["a"])
    assert one.count() == 1
    two.optimize()
    fill(one, [Document("c", id="c")], source="c")
    assert ids(two.search_text("c")) == ["c"]


def test_many_tables_and_other_tables_do_not_matter(tmp_path: Path) -> None:
    import lancedb

    database = lancedb.connect(tmp_path)
    for n in range(15):
        database.create_table(f"a{n:02d}", [{"x": 1}])
    assert not open_store(tmp_path).exists()
    fill(open_store(tmp_path), [Document("a", id="a")])
    assert open_store(tmp_path).count() == 1


names = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(first=names, second=names, top_k=st.integers(1, 10))
def test_fusion(first: list[str], second: list[str], top_k: int) -> None:
    lists = [[(0.0, Document(name, id=name)) for name in order] for order in (first, second)]
    fused = fuse(lists, top_k=top_k)
    scores = {
        name: sum(1 / (61 + order.index(name)) for order in (first, second) if name in order)
        for name in {*first, *second}
    }
    expected = sorted(scores, key=lambda name: (-scores[name], name))[:top_k]
    assert ids(fused) == expected
    assert [score for score, _ in fused] == pytest.approx([scores[name] for name in expected])


def test_fusion_follows_ranks_and_not_scores(store: Store) -> None:
    fill(
        store,
        [
            Document("alpha beta", id="both"),
            Document("alpha " * 3, id="vector"),
            Document("beta gamma delta epsilon", id="words"),
        ],
    )
    found = store.hybrid(embed("alpha"), "beta", top_k=3)
    assert ids(found)[0] == "both"
    assert found[0][0] == pytest.approx(1 / 62 + 1 / 61)
