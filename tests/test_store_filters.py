"""Filters select exactly what a plain reading of them selects, whatever is in the values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_kit import embed, fill, ids, open_store

from omniembed.errors import FilterError
from omniembed.store import Store
from omniembed.types import Document, Kind

HOSTILE = [
    "x' OR 1=1 --",
    "x'; DROP TABLE documents; --",
    'a"b',
    "back\\slash\\'",
    "\\",
    "'",
    "''",
    "%",
    "_",
    "`id`",
    "\0",
    "\x1f",
    '\x1f"k"=1\x1f',
    "é漢字👩‍👩‍👧",
    "",
    "\udcff",
]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_values_match_only_themselves(store: Store, text: str) -> None:
    others = [other for other in HOSTILE if other != text]
    documents = [
        Document("word", id=f"{n}", uri=value, metadata={"k": value, "l": [value], value: 1})
        for n, value in enumerate([text, *others])
    ]
    fill(store, documents)
    for where in (
        {"uri": text},
        {"uri": {"$in": [text]}},
        {"metadata.k": text},
        {"metadata.l": text},
        {"$and": [{"metadata.k": {"$in": [text]}}]},
    ):
        assert store.count(where=where) == 1
        assert ids(store.search(embed("word"), top_k=50, where=where)) == ["0"]
        assert ids(store.search_text("word", top_k=50, where=where)) == ["0"]
        assert ids(store.hybrid(embed("word"), "word", top_k=50, where=where)) == ["0"]
        assert store.count(where={"$not": where}) == len(others)
    assert store.count(where={"uri": {"$nin": [text]}}) == len(others)
    assert store.count(where={"metadata.k": {"$ne": text}}) == len(others)
    if text:
        assert store.count(where={f"metadata.{text}": 1}) == 1


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "ab", "b", "2024-01-01", "2024-01-02", "é", "@", "a\0", "z" * 24])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
)
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": lambda a, b: a > b,
    "$gte": lambda a, b: a >= b,
    "$lt": lambda a, b: a < b,
    "$lte": lambda a, b: a <= b,
}


def type_of(value: object) -> str:
    return "number" if type(value) in (int, float) else type(value).__name__


def matches(value: object, operator: str, operand: Any) -> bool:
    """Read an operator plainly."""
    same_type = type_of(value) == type_of(operand)
    if operator == "$eq":
        return same_type and value == operand
    return same_type and COMPARE[operator](value, operand)


def test_a_trailing_nul_is_greater_than_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, [Document("a", id=value, metadata={"k": value}) for value in ("a", "a\0", "b")])
    found = ids(store.search(embed("a"), top_k=9, where={"metadata.k": {"$gt": "a\0"}}))
    assert found == ["b"]
    found = ids(store.search(embed("a"), top_k=9, where={"metadata.k": {"$lt": "a\0"}}))
    assert found == ["a"]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(values=st.lists(scalars, min_size=1, max_size=12), data=st.data())
def test_metadata_conditions_agree_with_python(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], data: st.DataObject
) -> None:
    operand = data.draw(st.sampled_from(values) | scalars)
    ordered = type_of(operand) in ("number", "str")
    operator = data.draw(st.sampled_from(["$eq", *(COMPARE if ordered else ())]))
    store = open_store(tmp_path_factory.mktemp("filters"))
    fill(store, [Document("a", id=f"{n}", metadata={"k": v}) for n, v in enumerate(values)])
    where = {"metadata.k": {operator: operand}}
    expected = {f"{n}" for n, value in enumerate(values) if matches(value, operator, operand)}
    assert set(ids(store.search(embed("a"), top_k=50, where=where))) == expected
    assert store.count(where={"$not": where}) == len(values) - len(expected)


def test_metadata_beyond_scalars(store: Store) -> None:
    fill(
        store,
        [
            Document("a", id="0", metadata={"tags": ["x", "y", 3], "a": {"b": {"c": 1}}}),
            Document("a", id="1", metadata={"tags": ["xy"], "a": {"b": {"c": 2.0}}, "n": None}),
            Document("a", id="2", metadata={"tags": [], "a.b": 7, "name": "x\ny"}),
            Document("a", id="3", metadata={"year": 2**60, "name": "z" * 30}),
        ],
    )

    def found(where: dict[str, Any]) -> str:
        return "".join(sorted(ids(store.search(embed("a"), where=where))))

    assert found({"metadata.tags": "x"}) == "0"
    assert found({"metadata.tags": {"$in": ["xy", 3.0]}}) == "01"
    assert found({"metadata.tags": []}) == "2"
    assert found({"metadata.tags": {"$exists": True}}) == "012"
    assert found({"metadata.a.b.c": {"$gte": 2}}) == "1"
    assert found({"metadata.a": {"$exists": True}}) == "01"
    assert found({"metadata.a.b": 7}) == "2"
    assert found({"metadata.n": None}) == "0123"
    assert found({"metadata.n": {"$exists": True}}) == "1"
    assert found({"metadata.year": {"$gt": 1e300}}) == ""
    assert found({"metadata.year": {"$lt": 10**400}}) == "3"
    assert found({"metadata.name": {"$prefix": "x\n"}}) == "2"
    assert found({"metadata.name": {"$gt": "z" * 24}}) == "3"
    assert found({"metadata.name": {"$prefix": ""}}) == "23"


def test_fields(store: Store) -> None:
    fill(
        store,
        [
            Document(
                "a",
                kind=Kind.CODE,
                id="0",
                uri="src/a.py",
                language="python",
                start_line=1,
                end_line=9,
            ),
            Document(
                "a",
                kind=Kind.CODE,
                id="1",
                uri="src/b.py",
                language="rust",
                start_line=20,
                end_line=30,
            ),
            Document("a", kind=Kind.IMAGE, id="2", uri="src\U0010ffff", title="Über uns"),
            Document("a", id="3", uri="srd", symbol="\ud7ff"),
        ],
    )

    def found(where: dict[str, Any], **options: Any) -> str:
        return "".join(sorted(ids(store.search(embed("a"), where=where, **options))))

    assert found({}) == "0123"
    assert found({}, kinds=[Kind.CODE, Kind.IMAGE]) == "012"
    assert found({"kind": "code"}, kinds=[Kind.IMAGE]) == ""
    assert found({"kind": {"$nin": ["code"]}}) == "23"
    assert found({"kind": Kind.IMAGE}) == "2"
    assert found({"language": "python", "start_line": {"$gte": 1, "$lt": 5}}) == "0"
    assert found({"start_line": {"$lt": 1e30}}) == "01"
    assert found({"start_line": {"$gt": -(10**30)}}) == "01"
    assert found({"start_line": {"$gte": 1.5}}) == "1"
    assert found({"start_line": {"$lte": float("inf")}}) == "01"
    assert found({"end_line": None}) == "23"
    assert found({"end_line": {"$ne": 9}}) == "123"
    assert found({"end_line": {"$in": [None, 9]}}) == "023"
    assert found({"uri": {"$prefix": "src/"}}) == "01"
    assert found({"uri": {"$prefix": "src"}}) == "012"
    assert found({"uri": {"$prefix": "src\U0010ffff"}}) == "2"
    assert found({"uri": {"$prefix": "\U0010ffff"}}) == ""
    assert found({"symbol": {"$prefix": "\ud7ff"}}) == "3"
    assert found({"uri": {"$contains": "b.p"}}) == "1"
    assert found({"uri": {"$contains": ""}}) == "0123"
    assert found({"title": {"$contains": "ber"}, "language": None}) == "2"
    assert found({"id": {"$gte": "2"}}) == "23"
    assert found({"$or": [{"id": "0"}, {"$and": [{"id": "3"}, {"kind": "text"}]}]}) == "03"
    assert found({"$not": {"$or": [{"language": "rust"}, {"start_line": 1}]}}) == "23"
    assert found({"id": {"$in": []}}) == ""
    assert found({"id": {"$nin": []}}) == "0123"
    assert found({"id": {"$in": [str(n) for n in range(2, 5000)]}}) == "23"


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"colour": "red"}, "unknown filter field 'colour'.*language.*metadata"),
        ({"vector": 1}, "unknown filter field"),
        ({"text": "a"}, "unknown filter field"),
        ({"metadata": 1}, "unknown filter field"),
        ({"metadata.": 1}, "unknown filter field"),
        ({3: 1}, "unknown filter field"),
        ({"$where": "1=1"}, "unknown filter field"),
        ({"language": {"$regex": "p.*"}}, r"unknown operator '\$regex'.*\$prefix"),
        ({"start_line": {"$prefix": "1"}}, "unknown operator"),
        ({"kind": {"$gt": "code"}}, "unknown operator"),
        ({"metadata.k": {"$contains": "a"}}, "unknown operator"),
        ({"metadata.k": {"a": 1}}, "unknown operator"),
        ({"language": 3}, "compared with a str"),
        ({"language": ["python"]}, "compared with a str"),
        ({"start_line": "3"}, "compared with a number"),
        ({"start_line": True}, "compared with a number"),
        ({"start_line": float("nan")}, "compared with a number"),
        ({"kind": "video"}, "unknown document kind"),
        ({"kind": ["code"]}, "unknown document kind"),
        ({"id": {"$in": "abc"}}, "take a list"),
        ({"id": {}}, "is empty"),
        ({"$and": []}, "not empty"),
        ({"$or": {"id": "a"}}, "list of filters"),
        ({"$not": ["a"]}, "must be a mapping"),
        ({"metadata.k": {"$gt": None}}, "ordered"),
        ({"metadata.k": {"$gt": True}}, "ordered"),
        ({"metadata.k": {"$lt": float("nan")}}, "ordered"),
        ({"metadata.k": {"$lt": "z" * 25}}, "24 bytes"),
        ({"metadata.k": {"$exists": 1}}, "true or false"),
        ({"metadata.k": {"$prefix": 1}}, "takes a str"),
        ({"metadata.k": float("nan")}, "JSON"),
        ({"metadata.k": object()}, "JSON"),
        ("language = 'python'", "must be a mapping"),
    ],
)
def test_unusable_filters_say_what_is_known(store: Store, where: Any, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        store.search(embed("a"), where=where)
    with pytest.raises(FilterError, match=message):
        store.count(where=where)


def test_depth_is_bounded(store: Store) -> None:
    where: dict[str, Any] = {"id": "a"}
    for _ in range(10_000):
        where = {"$not": where}
    with pytest.raises(FilterError, match="deep"):
        store.count(where=where)
