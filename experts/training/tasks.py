"""What one set contributes to a training run: queries, vectors, and what is held back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...errors import InputError
from ...models.arrays import Floats
from .base import Base
from .data import TRAIN, Collection, LabelledQueries, in_gate_slice, share_of
from .negatives import Rows
from .tower import QueryStates, query_states

UNSEEN = "unseen"
"""Name of the queries for held-out documents among the dev queries of a task."""

_SENTENCES_EACH = 4
"""Sentences taken from a document at most."""

_SEEN_POOL = 0.2
"""From this share of documents with training queries on, only those serve as negatives."""


@dataclass(frozen=True)
class Partition:
    """The training queries of a set, divided.

    Attributes:
        train: what the expert learns from.
        gate: kept for the gate.
        unseen: queries for documents that occur in neither of the others.
    """

    train: LabelledQueries
    gate: LabelledQueries
    unseen: LabelledQueries


@dataclass(frozen=True)
class EncodedQueries:
    """Labelled queries with their frozen states.

    Attributes:
        labels: the queries.
        states: the same, after the lower half of the tower.
    """

    labels: LabelledQueries
    states: QueryStates


@dataclass(frozen=True)
class Probe:
    """Labelled queries and the pool they are measured in.

    Attributes:
        queries: the queries.
        documents: float32 (m, dim), unit norm.
    """

    queries: EncodedQueries
    documents: Floats


@dataclass(frozen=True)
class Task:
    """One set, ready for training.

    Attributes:
        name: name of the set.
        kind: kind of most of its documents.
        documents: float32 (m, dim), unit norm.
        eligible: rows of the documents that may serve as negatives.
        train: what the expert learns from.
        dev: what it is judged by, by name.
        weight: how often it is drawn, beside its size.
    """

    name: str
    kind: str
    documents: Floats
    eligible: Rows
    train: EncodedQueries
    dev: Mapping[str, Probe]
    weight: float = 1.0


def partition(collection: Collection, *, gate_share: float, unseen_share: float) -> Partition:
    """Divide the training queries of a set, by hashes only.

    Args:
        collection: has a split ``train``.
        gate_share: share of queries kept for the gate. The same wording falls on the same side
            in every set.
        unseen_share: share of documents held out, with all their queries.

    Returns:
        The three parts.

    Raises:
        InputError: when the set has no training queries.
    """
    labels = collection.splits.get(TRAIN)
    if not labels:
        raise InputError(f"set {collection.name!r} has no training queries")
    hidden = {
        row
        for row, document in enumerate(collection.documents)
        if share_of(f"{collection.name}\0{document.id or document.content}") < unseen_share
    }
    parts: dict[str, list[int]] = {"train": [], "gate": [], "unseen": []}
    for row, (text, relevant) in enumerate(zip(labels.texts, labels.relevant, strict=True)):
        if hidden.intersection(relevant):
            parts["unseen"].append(row)
        else:
            parts["gate" if in_gate_slice(text, gate_share) else "train"].append(row)
    return Partition(*(labels.select(rows) for rows in parts.values()))


def build_task(
    collection: Collection,
    part: Partition,
    base: Base,
    *,
    dev: Mapping[str, Probe] | None = None,
    weight: float = 1.0,
) -> Task:
    """Encode a set with the frozen base.

    Args:
        collection: the set.
        part: its training queries, divided.
        base: the frozen base.
        dev: what the expert is judged by, beside the queries for held-out documents.
        weight: how often the set is drawn, beside its size.

    Returns:
        The task.
    """
    documents = base.cache.vectors(collection.documents)
    kinds = Counter(document.kind.value for document in collection.documents)
    probes = dict(dev or {})
    if len(part.unseen):
        probes[UNSEEN] = Probe(encode_labels(part.unseen, base), documents)
    return Task(
        name=collection.name,
        kind=kinds.most_common(1)[0][0],
        documents=documents,
        eligible=_eligible(part, len(documents)),
        train=encode_labels(part.train, base),
        dev=probes,
        weight=weight,
    )


def sentence_task(task: Task, collection: Collection, base: Base, *, limit: int) -> Task:
    """Make a task whose queries are sentences out of the documents they look for.

    Only documents with training queries lend sentences: those of other splits stay unseen.

    Args:
        task: the set's own task.
        collection: the set.
        base: the frozen base.
        limit: number of sentences at most.

    Returns:
        A task without dev queries.
    """
    random = np.random.default_rng(0)
    seen = sorted({row for relevant in task.train.labels.relevant for row in relevant})
    owners: dict[str, dict[int, float]] = {}
    for row in random.permutation(seen).tolist():
        sentences = split_sentences(collection.documents[row].text)
        for one in random.permutation(len(sentences))[:_SENTENCES_EACH].tolist():
            owners.setdefault(sentences[one], {})[row] = 1.0
        if len(owners) >= limit:
            break
    texts = tuple(owners)
    labels = LabelledQueries(texts, texts, tuple(owners.values()))
    return replace(task, name=f"{task.name} sentences", train=encode_labels(labels, base), dev={})


def split_sentences(text: str, shortest: int = 6, longest: int = 40) -> list[str]:
    """Cut a text into sentences.

    Args:
        text: prose.
        shortest: leave out sentences of fewer words.
        longest: leave out sentences of more words.

    Returns:
        The sentences, in order.
    """
    found = re.split(r"(?<=[.!?])\s+", " ".join(text.split()))
    return [one for one in found if shortest <= len(one.split()) <= longest]


def _eligible(part: Partition, documents: int) -> Rows:
    hidden = {row for relevant in part.unseen.relevant for row in relevant}
    seen = {row for relevant in part.train.relevant for row in relevant}
    given = {row for rows in part.train.negatives for row in rows}
    if len(seen) >= _SEEN_POOL * documents:
        # A document that only ever serves as a negative would be pushed away from all queries.
        rows = (seen | given) - hidden
    else:
        rows = set(range(documents)) - hidden
    return np.array(sorted(rows), np.int64)


def encode_labels(labels: LabelledQueries, base: Base) -> EncodedQueries:
    """Run queries through the frozen lower half.

    Args:
        labels: the queries.
        base: the frozen base.

    Returns:
        The queries with their states.
    """
    return EncodedQueries(labels, query_states(base.tower, labels.texts, base.states))
