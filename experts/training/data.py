"""Labelled retrieval data: BEIR-like folders and captioned images."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from ...errors import InputError, SourceNotFoundError
from ...types import Document, Kind

TRAIN = "train"

GATE_SHARE = 0.1
"""Share of the training queries that no expert sees; the gate learns from them."""

_KINDS = {"bash": Kind.CODE, "sql": Kind.CODE, "intent": Kind.TOOL}
"""Kinds of public sets, beside our own."""


@dataclass(frozen=True)
class LabelledQueries:
    """Queries of one split.

    Attributes:
        ids: identifier of every query.
        texts: the queries.
        relevant: for every query, rows of relevant documents with their grade (above 0).
        negatives: for every query, rows of documents given as wrong; empty where none were given.
        teacher: for every query, a teacher's score by row; empty where none were given.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    relevant: tuple[Mapping[int, float], ...]
    negatives: tuple[tuple[int, ...], ...] = ()
    teacher: tuple[Mapping[int, float], ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, rows: Sequence[int]) -> LabelledQueries:
        """Keep some queries.

        Args:
            rows: their positions.

        Returns:
            The queries, in the order of ``rows``.
        """
        return LabelledQueries(
            tuple(self.ids[row] for row in rows),
            tuple(self.texts[row] for row in rows),
            tuple(self.relevant[row] for row in rows),
            tuple(self.negatives[row] for row in rows) if self.negatives else (),
            tuple(self.teacher[row] for row in rows) if self.teacher else (),
        )


@dataclass(frozen=True)
class Collection:
    """A pool of documents and the queries asked of it.

    Attributes:
        name: name of the set.
        documents: the pool.
        splits: queries, by split name.
    """

    name: str
    documents: tuple[Document, ...]
    splits: Mapping[str, LabelledQueries]


def read_collection(folder: Path) -> Collection:
    """Read a BEIR-like folder: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<split>.tsv``.

    Either jsonl file may be gzipped. A corpus line holds ``id`` (or ``_id``), ``text``, and
    optionally ``title`` and ``kind``.

    Args:
        folder: the folder; its name becomes the set's name.

    Returns:
        The set with all its splits.

    Raises:
        SourceNotFoundError: when a file is missing.
        InputError: when a line is malformed or a label names no document.
    """
    documents = read_documents(_file(folder, "corpus.jsonl"))
    rows = {document.id: row for row, document in enumerate(documents)}
    queries = {
        _identifier(record, folder): str(record["text"])
        for record in records(_file(folder, "queries.jsonl"))
    }
    paths = sorted((folder / "qrels").glob("*.tsv"))
    if not paths:
        raise SourceNotFoundError(f"{folder} has no qrels/*.tsv")
    splits = {path.stem: _read_labels(path, queries, rows) for path in paths}
    return Collection(folder.name, tuple(documents), splits)


def read_documents(path: Path) -> list[Document]:
    """Read a corpus.

    Args:
        path: jsonl, gzipped or not; a line holds ``text`` and optionally ``id`` (or ``_id``),
            ``title`` and ``kind``.

    Returns:
        The documents; those without an id are numbered.

    Raises:
        InputError: when a line has no text or an unknown kind.
    """
    documents = []
    for number, record in enumerate(records(path)):
        identifier = record.get("id", record.get("_id", number))
        if not isinstance(record.get("text"), str):
            raise InputError(f"{path}: document {identifier!r} has no text")
        documents.append(_document(str(identifier), record))
    return documents


def read_captions(folder: Path, split: str) -> Collection:
    """Read one split of a folder of captioned images as a text-to-image set.

    Queries are the distinct captions; relevant are all images of the split that carry one.

    Args:
        folder: holds ``pairs.jsonl.gz`` (image, captions, split) and the images.
        split: ``train``, ``val`` or ``test``.

    Returns:
        The set; its only split bears the given name.
    """
    documents: list[Document] = []
    relevant: dict[str, dict[int, float]] = {}
    for record in records(_file(folder, "pairs.jsonl")):
        if record["split"] != split:
            continue
        row = len(documents)
        path = folder / str(record["image"])
        documents.append(Document(kind=Kind.IMAGE, id=str(record["image"]), image=path))
        for caption in record["captions"]:
            relevant.setdefault(str(caption), {})[row] = 1.0
    texts = tuple(relevant)
    queries = LabelledQueries(texts, texts, tuple(relevant.values()))
    return Collection(folder.name, tuple(documents), {split: queries})


def _document(identifier: str, record: Mapping[str, Any]) -> Document:
    kind = str(record.get("kind", "text"))
    return Document(
        text=str(record["text"]),
        title=str(record.get("title") or ""),
        id=identifier,
        kind=_KINDS.get(kind) or Kind.parse(kind),
    )


def _identifier(record: Mapping[str, Any], where: Path) -> str:
    identifier = record.get("id", record.get("_id"))
    if identifier is None:
        raise InputError(f"{where}: a record has neither 'id' nor '_id': {str(record)[:80]}")
    return str(identifier)


def _read_labels(
    path: Path, queries: Mapping[str, str], rows: Mapping[str, int]
) -> LabelledQueries:
    relevant: dict[str, dict[int, float]] = {}
    with path.open(encoding="utf-8", newline="") as stream:
        lines = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(lines, None)
        for line in lines:
            query, document, grade = line[0], line[1], float(line[2])
            if query not in queries or document not in rows:
                raise InputError(f"{path}: {query!r} / {document!r} is in no file of the set")
            if grade > 0:
                relevant.setdefault(query, {})[rows[document]] = grade
    texts = tuple(queries[query] for query in relevant)
    return LabelledQueries(tuple(relevant), texts, tuple(relevant.values()))


def _file(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise SourceNotFoundError(f"{folder} has no {name} or {name}.gz")


def records(path: Path) -> Iterator[dict[str, Any]]:
    """Read a jsonl file, gzipped or not.

    Args:
        path: the file.

    Yields:
        One object a line; blank lines are passed over.

    Raises:
        SourceNotFoundError: when there is no such file.
        InputError: when a line is no JSON object, naming it.
    """
    if not path.is_file():
        raise SourceNotFoundError(f"no file {path}")
    with _open(path) as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
                raise InputError(f"{path}, line {number} is not JSON: {error}") from error
            if not isinstance(record, dict):
                raise InputError(f"{path}, line {number} is not a JSON object")
            yield record


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def in_gate_slice(text: str, share: float = GATE_SHARE) -> bool:
    """Tell whether a training query is kept for the gate.

    Args:
        text: the query; case, spacing and punctuation do not count.
        share: share of queries to keep.

    Returns:
        True for the queries that no expert may train on.
    """
    return share_of(" ".join(re.findall(r"\w+", text.casefold()))) < share


def share_of(text: str) -> float:
    """Map a text to a number that depends on nothing else.

    Args:
        text: any text.

    Returns:
        A number in [0, 1).
    """
    digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
