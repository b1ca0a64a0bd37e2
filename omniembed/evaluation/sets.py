"""A user's labelled queries: a BEIR folder, captioned pictures, or a file of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import InputError, SourceNotFoundError
from ..experts.training.data import TRAIN, LabelledQueries, read_captions, read_collection
from ..experts.training.pairs import read_pairs
from ..types import Document


@dataclass(frozen=True)
class LabelledSet:
    """Queries with known answers, and the pool they are searched in.

    Attributes:
        name: for reports.
        documents: the pool.
        queries: with the rows of their relevant documents.
    """

    name: str
    documents: tuple[Document, ...]
    queries: LabelledQueries


def read_set(path: Path, split: str = "test", limit: int | None = None) -> LabelledSet:
    """Read one set.

    Args:
        path: a BEIR folder (``corpus.jsonl``, ``queries.jsonl``, ``qrels/SPLIT.tsv``; either jsonl
            may be gzipped), a folder of captioned pictures (``pairs.jsonl``), or a jsonl file of
            pairs as ``omniembed experts train`` takes it, whose pool is all its documents.
        split: which queries of a folder.
        limit: number of queries at most, drawn with a fixed seed.

    Returns:
        The set.

    Raises:
        SourceNotFoundError: when there is no such file, folder or split.
        InputError: when a line is malformed, or no query has an answer.
    """
    if not path.exists():
        raise SourceNotFoundError(f"{path} does not exist; give a BEIR folder or a jsonl file")
    if not path.is_dir():
        collection, split, name = read_pairs(path), TRAIN, path.name
    elif any((path / f"pairs.jsonl{end}").is_file() for end in ("", ".gz")):
        collection, name = read_captions(path, split), f"{path.name}/{split}"
    else:
        collection, name = read_collection(path), f"{path.name}/{split}"
    if split not in collection.splits:
        known = ", ".join(sorted(collection.splits))
        raise SourceNotFoundError(f"{path} has no split {split!r}; it has {known}: use --split")
    queries = collection.splits[split]
    if not len(queries):
        raise InputError(f"{name} has no query with a relevant document")
    if limit is not None and limit < len(queries):
        rows = np.random.default_rng(0).permutation(len(queries))[:limit]
        queries = queries.select(sorted(rows.tolist()))
    return LabelledSet(name, collection.documents, queries)
