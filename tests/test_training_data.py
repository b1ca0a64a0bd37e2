from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("peft")
pytest.importorskip("pytrec_eval")

from training_kit import TinyEncoder, tiny_base, toy_records, write_lines

from omniembed.errors import ImageError, InputError, SourceNotFoundError
from omniembed.experts.training.data import (
    Collection,
    LabelledQueries,
    read_captions,
    read_collection,
)
from omniembed.experts.training.pairs import read_pairs
from omniembed.experts.training.tasks import (
    build_task,
    in_gate_slice,
    partition,
    sentence_task,
    split_sentences,
)
from omniembed.experts.training.vectors import VectorCache
from omniembed.types import Document, Kind


def folder_of(root: Path, corpus: list[object], qrels: str, *, packed: bool = False) -> Path:
    folder = root / "toy"
    queries = [{"id": "q1", "text": "eins"}, {"_id": "q2", "text": "zwei \u2028 \U0001f600"}]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        path = write_lines(folder / f"{name}.jsonl", rows)
        if packed:
            (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    (folder / "qrels").mkdir()
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n" + qrels)
    return folder


CORPUS = [
    {"id": "a", "title": "T", "text": "body", "kind": "bash"},
    {"_id": "b", "text": "T\x00 x", "kind": "intent"},
]


@pytest.mark.parametrize("packed", [False, True])
def test_collection(tmp_path: Path, packed: bool) -> None:
    qrels = "q1\ta\t2\nq1\tb\t0\nq2\tb\t1\n"
    collection = read_collection(folder_of(tmp_path, CORPUS, qrels, packed=packed))
    assert [document.kind for document in collection.documents] == [Kind.CODE, Kind.TOOL]
    assert collection.documents[0].content == "T\nbody"
    labels = collection.splits["train"]
    assert labels.relevant == ({0: 2.0}, {1: 1.0})
    assert labels.texts == ("eins", "zwei \u2028 \U0001f600")
    assert labels.select([1]).ids == ("q2",)


@pytest.mark.parametrize(
    ("corpus", "qrels", "error"),
    [
        (CORPUS, "q9\ta\t1\n", InputError),
        (CORPUS, "q1\tz\t1\n", InputError),
        ([{"id": "a"}], "", InputError),
        ([{"id": "a", "text": "x", "kind": "sound"}], "", InputError),
        ([["not", "an", "object"]], "", InputError),
    ],
)
def test_broken_collections(
    tmp_path: Path, corpus: list[object], qrels: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        read_collection(folder_of(tmp_path, corpus, qrels))


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match=r"corpus\.jsonl"):
        read_collection(tmp_path)
    with pytest.raises(SourceNotFoundError):
        read_pairs(tmp_path / "none.jsonl")


def test_captions_keep_to_their_split(tmp_path: Path) -> None:
    rows = [
        {"image": "1.png", "captions": ["a cat", "animal"], "split": "train"},
        {"image": "2.png", "captions": ["a dog", "animal"], "split": "train"},
        {"image": "3.png", "captions": ["animal"], "split": "test"},
    ]
    write_lines(tmp_path / "pairs.jsonl", rows)
    collection = read_captions(tmp_path, "train")
    labels = collection.splits["train"]
    assert dict(zip(labels.texts, labels.relevant, strict=True))["animal"] == {0: 1.0, 1: 1.0}
    assert [document.id for document in collection.documents] == ["1.png", "2.png"]


def test_pairs(tmp_path: Path) -> None:
    rows = [
        {"query": "q", "positive": ["p1", "p2"], "negatives": ["n", "p3"], "scores": [3, 2, 1, 0]},
        {"query": "q", "positive": "p3"},
        {"query": "r", "image": "x.png"},
    ]
    collection = read_pairs(write_lines(tmp_path / "my.pairs.jsonl", rows))
    labels = collection.splits["train"]
    texts = [document.text for document in collection.documents]
    assert texts == ["p1", "p2", "n", "p3", ""]
    assert labels.relevant[0] == {0: 1.0, 1: 1.0, 3: 1.0}
    assert labels.negatives[0] == (2,)
    assert labels.teacher[0] == {0: 3.0, 1: 2.0, 2: 1.0, 3: 0.0}
    assert collection.documents[4].image == tmp_path / "x.png"


@pytest.mark.parametrize(
    "record",
    [
        {"positive": "p"},
        {"query": " ", "positive": "p"},
        {"query": "q"},
        {"query": "q", "positive": []},
        {"query": "q", "positive": [""]},
        {"query": "q", "positive": 3},
        {"query": "q", "positive": "p", "scores": [1, 2]},
        {"query": "q", "positive": "p", "scores": ["high"]},
    ],
)
def test_broken_pairs_name_their_record(tmp_path: Path, record: object) -> None:
    good = {"query": "q0", "positive": "p0"}
    with pytest.raises(InputError, match="record 2"):
        read_pairs(write_lines(tmp_path / "p.jsonl", [good, record]))


@pytest.mark.parametrize("text", ["", "\n\n", "{", "[1]\n"])
def test_files_that_hold_no_pairs(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(text)
    with pytest.raises(InputError):
        read_pairs(path)


def documents(*texts: str) -> list[Document]:
    return [Document(text=text) for text in texts]


def test_vectors_are_computed_once(tmp_path: Path) -> None:
    encoder = TinyEncoder()
    cache = VectorCache(tmp_path, encoder)
    first = cache.vectors(documents("w1 w2", "w3", "w1 w2"))
    assert encoder.computed == 2
    assert np.array_equal(first[0], first[2])
    fresh = TinyEncoder()
    again = VectorCache(tmp_path, fresh).vectors(documents("w3", "w1 w2"))
    assert fresh.computed == 0
    assert np.array_equal(again, first[[1, 0]])
    assert cache.vectors([]).shape == (0, 32)


def test_another_base_has_its_own_vectors(tmp_path: Path) -> None:
    VectorCache(tmp_path, TinyEncoder()).vectors(documents("w1"))
    other = TinyEncoder()
    other.fingerprint = "other"
    VectorCache(tmp_path, other).vectors(documents("w1"))
    assert other.computed == 1


def test_interrupted_embedding_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omniembed.experts.training.vectors._SHARD", 4)
    texts = [f"w{row} w{row + 1}" for row in range(10)]

    class Dying(TinyEncoder):
        def encode(self, documents: object) -> object:  # type: ignore[override]
            if self.computed >= 4:
                raise KeyboardInterrupt
            return super().encode(documents)  # type: ignore[arg-type]

    with pytest.raises(KeyboardInterrupt):
        VectorCache(tmp_path, Dying()).vectors(documents(*texts))
    (tmp_path / "tiny" / "half.npz.1.partial").write_bytes(b"torn")
    encoder = TinyEncoder()
    assert VectorCache(tmp_path, encoder).vectors(documents(*texts)).shape == (10, 32)
    assert encoder.computed == 6


def test_images_need_a_file(tmp_path: Path) -> None:
    with pytest.raises(ImageError):
        VectorCache(tmp_path, TinyEncoder()).vectors([Document(kind=Kind.IMAGE, id="x")])


@given(st.text(max_size=40))
def test_gate_slice_ignores_case_and_punctuation(text: str) -> None:
    words = "".join(letter if letter.isascii() else " " for letter in text)
    assert in_gate_slice(words) == in_gate_slice(f"  {words.upper()}?! ")


def toy(tmp_path: Path) -> Collection:
    return read_pairs(write_lines(tmp_path / "toy.jsonl", toy_records(40, 4)))


def test_partition_is_disjoint_and_stable(tmp_path: Path) -> None:
    collection = toy(tmp_path)
    part = partition(collection, gate_share=0.2, unseen_share=0.2)
    parts = [set(one.ids) for one in (part.train, part.gate, part.unseen)]
    assert all(parts)
    assert sum(map(len, parts)) == len(set.union(*parts)) == len(collection.splits["train"])
    hidden = {row for relevant in part.unseen.relevant for row in relevant}
    seen = {row for one in (part.train, part.gate) for relevant in one.relevant for row in relevant}
    assert not hidden & seen
    assert partition(collection, gate_share=0.2, unseen_share=0.2) == part


def test_held_out_documents_are_no_negatives(tmp_path: Path) -> None:
    collection = toy(tmp_path)
    part = partition(collection, gate_share=0.0, unseen_share=0.3)
    base = tiny_base(tmp_path)
    task = build_task(collection, part, base)
    hidden = {row for relevant in part.unseen.relevant for row in relevant}
    assert hidden
    assert not hidden & set(task.eligible.tolist())
    assert task.dev["unseen"].queries.labels == part.unseen


def test_sentences_look_for_their_own_document(tmp_path: Path) -> None:
    words = [f"w{row} w{row + 1} w3 w4 w5 w6" for row in range(20)]
    rows = [
        {"query": f"q{row}", "positive": f"{text}. Short one! {text} w9? {'w1 ' * 60}."}
        for row, text in enumerate(words)
    ]
    collection = read_pairs(write_lines(tmp_path / "toy.jsonl", rows))
    part = partition(collection, gate_share=0.0, unseen_share=0.3)
    base = tiny_base(tmp_path)
    task = build_task(collection, part, base)
    sentences = sentence_task(task, collection, base, limit=8)
    labels = sentences.train.labels
    assert len(labels) == 8
    for text, relevant in zip(labels.texts, labels.relevant, strict=True):
        assert all(text in collection.documents[row].text for row in relevant)
        assert set(relevant) <= set(task.eligible.tolist())
        assert text.endswith((".", "?"))
        assert 6 <= len(text.split()) <= 40


@given(st.text())
def test_sentences_of_any_text(text: str) -> None:
    for sentence in split_sentences(text, shortest=1, longest=5):
        assert sentence in " ".join(text.split())


def test_set_without_training_queries() -> None:
    empty = Collection("x", (), {"test": LabelledQueries((), (), ())})
    with pytest.raises(InputError, match="'x'"):
        partition(empty, gate_share=0.1, unseen_share=0.0)


def test_records_are_json(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"query": "q", "positive": "p"}) + "\nnot json\n")
    with pytest.raises(InputError, match="line 2"):
        read_pairs(path)
