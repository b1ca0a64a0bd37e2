"""Which sentence of a passage is closest to the query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..embedder import Embedder
from ..models.arrays import Floats
from ..types import Document, Hit, Kind

_SENTENCE = re.compile(r"[^\s].*?(?:[.!?…](?=\s)|\n|$)", re.DOTALL)
_FEWEST_CHARACTERS = 12
_MOST_SENTENCES = 12


@dataclass(frozen=True)
class Span:
    """Part of a text.

    Attributes:
        start: first character.
        end: behind the last.
    """

    start: int
    end: int


def sentences(text: str) -> list[Span]:
    """Cut a text into sentences and lines.

    Args:
        text: a passage.

    Returns:
        The spans that are long enough to mean something.
    """
    found = [Span(match.start(), match.end()) for match in _SENTENCE.finditer(text)]
    trimmed = [Span(s.start, s.start + len(text[s.start : s.end].rstrip())) for s in found]
    return [span for span in trimmed if span.end - span.start >= _FEWEST_CHARACTERS]


def matching_parts(hits: Sequence[Hit], vector: Floats, embedder: Embedder) -> dict[str, Span]:
    """Find the sentence of every text that lies nearest to the query.

    Args:
        hits: of any kinds.
        vector: float32 (dim,), of the query.
        embedder: embeds the sentences, as documents.

    Returns:
        By document id; texts of a single sentence have none.
    """
    owners: list[tuple[str, Span]] = []
    parts: list[Document] = []
    for hit in hits:
        document = hit.document
        if document.kind is not Kind.TEXT:
            continue
        spans = sentences(document.text)[:_MOST_SENTENCES]
        if len(spans) > 1:
            owners += [(document.id, span) for span in spans]
            parts += [Document(document.text[span.start : span.end]) for span in spans]
    if not parts:
        return {}
    encoded = embedder.encode_documents(parts)
    best: dict[str, tuple[float, Span]] = {}
    for at, score in zip(encoded.kept, (encoded.vectors @ vector).tolist(), strict=True):
        name, span = owners[at]
        if name not in best or score > best[name][0]:
            best[name] = (score, span)
    return {name: span for name, (_, span) in best.items()}
