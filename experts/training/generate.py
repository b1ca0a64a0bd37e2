"""Training pairs from an unlabelled corpus: a query generator and a round trip."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np

from ...errors import InputError
from ...types import Document, Kind
from .base import Base
from .data import read_documents
from .negatives import consistent
from .tower import query_states

logger = logging.getLogger(__name__)

QueryGenerator: TypeAlias = Callable[[Document], Sequence[str]]
"""Writes queries that a document answers; an LLM behind a function, or :func:`extractive`."""

_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_DOCSTRING = re.compile(r"(?:\"\"\"|''')\s*(.+?)(?:\n\s*\n|\"\"\"|''')", re.DOTALL)
_COMMENT = re.compile(r"^\s*(?:#|//|--|/?\*+)\s*(\S.+?)\s*(?:\*/)?$", re.MULTILINE)
_SENTENCE = re.compile(r"(.+?[.!?])(?:\s|$)", re.DOTALL)
_SHORTEST, _LONGEST = 2, 40


@dataclass(frozen=True)
class GenerationReport:
    """What came of a run.

    Attributes:
        documents: documents read.
        generated: queries written by the generator, without repetition.
        kept: queries that found their own document again.
        path: the pairs file.
    """

    documents: int
    generated: int
    kept: int
    path: Path


def extractive(document: Document) -> list[str]:
    """Take queries from the document itself; needs no language model.

    Args:
        document: of any kind but images.

    Returns:
        Its title, headings, first docstring or comment, and first sentence, where there are any.
    """
    found = [document.title] if document.title else []
    if document.kind is Kind.CODE:
        match = _DOCSTRING.search(document.text) or _COMMENT.search(document.text)
        found += [_first_sentence(match.group(1))] if match else []
    else:
        found += _HEADING.findall(document.text)
        found.append(_first_sentence(_HEADING.sub("", document.text)))
    return [text for text in found if _SHORTEST <= len(text.split()) <= _LONGEST]


def load_generator(name: str) -> QueryGenerator:
    """Find a generator.

    Args:
        name: ``"extractive"``, or ``"module:function"`` of one that is importable.

    Returns:
        The function.

    Raises:
        InputError: when there is no such function.
    """
    if name == "extractive":
        return extractive
    module, _, function = name.partition(":")
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"no generator {name!r} ({error}); use 'extractive' or 'module:function'"
        ) from error
    if not callable(found):
        raise InputError(f"generator {name!r} is not a function")
    return cast("QueryGenerator", found)


def generate_pairs(
    corpus: Path,
    out: Path,
    base: Base,
    *,
    generator: QueryGenerator = extractive,
    depth: int = 5,
) -> GenerationReport:
    """Write a pairs file for a corpus.

    A query is kept when the base finds its document again among the first ``depth``; the rest
    are too vague, or about something else (round-trip consistency).

    Args:
        corpus: jsonl with ``text`` and optionally ``id``, ``title`` and ``kind``.
        out: the pairs file.
        base: the frozen base.
        generator: writes the queries.
        depth: rank that a query's own document must reach.

    Returns:
        The report.

    Raises:
        InputError: when the generator yields no query at all.
    """
    documents = [one for one in read_documents(corpus) if one.kind is not Kind.IMAGE]
    owners: dict[str, dict[int, float]] = {}
    for row, document in enumerate(documents):
        for query in generator(document):
            owners.setdefault(" ".join(query.split()), {})[row] = 1.0
    owners.pop("", None)
    if not owners:
        raise InputError(
            f"the generator found no query in the {len(documents)} documents of {corpus}"
        )
    queries, relevant = list(owners), list(owners.values())
    vectors = base.cache.vectors(documents)
    keep = consistent(query_states(base.tower, queries, base.states).base, vectors, relevant, depth)
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", encoding="utf-8") as stream:
        for row in np.flatnonzero(keep).tolist():
            positives = [documents[one].content for one in relevant[row]]
            record = {"query": queries[row], "positive": positives}
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")
    kept = int(keep.sum())
    logger.info("%d of %d queries find their own document", kept, len(queries))
    return GenerationReport(len(documents), len(queries), kept, out)


def _first_sentence(text: str) -> str:
    text = " ".join(text.split())
    match = _SENTENCE.match(text)
    return match.group(1) if match else text
