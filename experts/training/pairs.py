"""A user's training pairs: one jsonl file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...types import Document, Kind
from .data import TRAIN, Collection, LabelledQueries, records


def read_pairs(path: Path) -> Collection:
    """Read a user's pairs.

    A line holds ``query``, ``positive`` (a text, or a list of texts), and optionally ``negatives``
    (a list of texts), ``image`` (path of the relevant picture, relative to the file; then
    ``positive`` may be left out) and ``scores`` (a teacher's score for every positive text and
    negative, in that order). Lines with the same query are joined. The pool is every document
    that the file names.

    Args:
        path: a jsonl file, gzipped or not.

    Returns:
        The set, with the split ``train``.

    Raises:
        SourceNotFoundError: when there is no such file.
        InputError: when a line is malformed, naming it, or the file holds no pair.
    """
    pool = _Pool()
    queries: dict[str, _Labels] = {}
    for number, record in enumerate(records(path), 1):
        try:
            query = _text(record.get("query"), "query")
            _add(queries.setdefault(query, _Labels()), record, pool, path.parent)
        except ValueError as error:
            raise InputError(f"{path}, record {number}: {error}") from error
    if not queries:
        raise InputError(f"{path} holds no pairs; give one JSON object a line")
    texts = tuple(queries)
    split = LabelledQueries(
        ids=texts,
        texts=texts,
        relevant=tuple(dict.fromkeys(one.positives, 1.0) for one in queries.values()),
        negatives=tuple(
            tuple(row for row in one.negatives if row not in one.positives)
            for one in queries.values()
        ),
        teacher=tuple(one.scores for one in queries.values()),
    )
    return Collection(path.name.split(".")[0], tuple(pool.documents), {TRAIN: split})


@dataclass
class _Labels:
    positives: set[int] = field(default_factory=set)
    negatives: list[int] = field(default_factory=list)
    scores: dict[int, float] = field(default_factory=dict)


class _Pool:
    """Documents without repetition."""

    def __init__(self) -> None:
        self.documents: list[Document] = []
        self._rows: dict[tuple[str, str], int] = {}

    def add(self, document: Document) -> int:
        key = (document.id, document.text)
        if key not in self._rows:
            self._rows[key] = len(self.documents)
            self.documents.append(document)
        return self._rows[key]


def _add(labels: _Labels, record: Mapping[str, Any], pool: _Pool, folder: Path) -> None:
    positives = [_text(text, "positive") for text in _listed(record.get("positive"))]
    negatives = [_text(text, "negatives") for text in _listed(record.get("negatives"))]
    right = [pool.add(Document(text=text)) for text in positives]
    wrong = [pool.add(Document(text=text)) for text in negatives]
    scores = record.get("scores")
    if scores is not None:
        numbers = [float(score) for score in _listed(scores)]
        labels.scores.update(zip(right + wrong, numbers, strict=True))
    if record.get("image") is not None:
        picture = folder / _text(record["image"], "image")
        right.append(pool.add(Document(kind=Kind.IMAGE, id=str(picture), image=picture)))
    if not right:
        raise ValueError("it needs 'positive' or 'image'")
    labels.positives.update(right)
    labels.negatives.extend(wrong)


def _listed(value: object) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name!r} must be a text that is not empty, not {value!r}")
    return value
