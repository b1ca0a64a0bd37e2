"""What word search (BM25) reads of a document and of a query."""

from __future__ import annotations

import re

from ..types import Document
from .tags import clean

MAX_QUERY_WORDS = 256
"""Distinct words of a query that are searched for; the rest of a longer text is left out."""

_WORD = re.compile(r"[^\W_]+")
_LONGEST_IDENTIFIER = 64
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def document_words(document: Document) -> str:
    """Collect the words of a document.

    Identifiers in camel case are added in parts, so that ``user name`` finds ``getUserName``;
    the tokenizer of the index splits at underscores by itself.

    Args:
        document: any document.

    Returns:
        Title and text, and the parts of identifiers.
    """
    text = clean(document.content)
    return "\n".join([text, *_parts(text)])


def query_words(text: str) -> str:
    """Collect the words of a query.

    Args:
        text: what the user wrote; nothing in it is an operator.

    Returns:
        Distinct words in order, at most ``MAX_QUERY_WORDS``; empty for a text without any.
    """
    text = clean(text)
    words = dict.fromkeys([*text.split(), *_parts(text)])
    return " ".join(list(words)[:MAX_QUERY_WORDS])


def _parts(text: str) -> list[str]:
    words = dict.fromkeys(word for word in _WORD.findall(text) if len(word) <= _LONGEST_IDENTIFIER)
    return [parts for word in words if (parts := _HUMP.sub(" ", word)) != word]
