"""Cutting source code into functions and classes, by syntax tree where there is a grammar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .languages import GRAMMARS, TRANSPARENT, Grammar, load_language
from .options import IngestOptions
from .passages import slices
from .symbols import symbol_of

if TYPE_CHECKING:
    from tree_sitter import Node

_DEEPEST = 30
"""Containers inside containers below which code is cut by lines: no program nests so far."""


@dataclass(frozen=True, slots=True)
class CodePiece:
    """A run of lines.

    Attributes:
        text: the lines.
        symbol: what they define (``Class.method``); empty for lines between definitions.
        start_line: counted from 1.
        end_line: inclusive.
    """

    text: str
    symbol: str
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class _Span:
    """Lines [start, end), counted from 0."""

    start: int
    end: int
    symbol: str


def cut_code(text: str, language: str, options: IngestOptions) -> list[CodePiece]:
    """Cut a source file.

    Args:
        text: the file, with line feeds only.
        language: its language; without a grammar it is cut at blank lines.
        options: lengths.

    Returns:
        Pieces in order that together hold every non-blank line.
    """
    lines = text.split("\n")
    spans: Sequence[_Span] = [_Span(0, len(lines), "")]
    if language in GRAMMARS:
        spans = _Outline(text, lines, language, options.code_characters).spans()
    return [piece for span in spans for piece in _pieces(lines, span, options)]


class _Outline:
    """Finds the definitions of one file."""

    def __init__(self, text: str, lines: Sequence[str], language: str, limit: int) -> None:
        self._lines = lines
        self._grammar: Grammar = GRAMMARS[language]
        self._language = language
        self._limit = limit
        self._source = text.encode("utf-8", "replace")

    def spans(self) -> list[_Span]:
        """Cover all lines by definitions and what lies between them."""
        from tree_sitter import Parser

        tree = Parser(load_language(self._language)).parse(self._source)
        found = list(self._walk(tree.root_node, "", 0))
        return self._covered(found, _Span(0, len(self._lines), ""))

    def _covered(self, found: Sequence[_Span], whole: _Span) -> list[_Span]:
        """Fill the gaps between definitions with spans that bear the symbol of the whole."""
        covered: list[_Span] = []
        at = whole.start
        end = _Span(whole.end, whole.end, "")
        for span in [*sorted(found, key=lambda span: (span.start, -span.end)), end]:
            start = max(span.start, at)
            if start > at:
                self._add_gap(covered, _Span(at, start, whole.symbol))
            if span.end > start:
                covered.append(_Span(start, span.end, span.symbol))
            at = max(at, span.end)
        return covered

    def _add_gap(self, covered: list[_Span], gap: _Span) -> None:
        """Add what lies between definitions; closing brackets alone join what they close."""
        text = "".join(self._lines[gap.start : gap.end])
        if any(letter.isalnum() for letter in text):
            covered.append(gap)
        elif text.strip() and covered:
            last = covered.pop()
            covered.append(_Span(last.start, gap.end, last.symbol))
        elif text.strip():
            covered.append(gap)

    def _walk(self, node: Node, prefix: str, depth: int) -> Iterator[_Span]:
        for child in node.children:
            definition = self._definition(child)
            if definition is None:
                if child.type in TRANSPARENT and depth < _DEEPEST:
                    yield from self._walk(child, prefix, depth + 1)
                continue
            name = symbol_of(definition, self._source)
            if not name:
                continue
            symbol = f"{prefix}.{name}" if prefix else name
            span = _Span(self._with_comments(child), child.end_point.row + 1, symbol)
            inner = list(self._members(definition, symbol, span.start, span.end, depth))
            yield from self._covered(inner, span) if inner else [span]

    def _members(
        self, definition: Node, symbol: str, start: int, end: int, depth: int
    ) -> Iterator[_Span]:
        length = sum(len(line) + 1 for line in self._lines[start:end])
        if definition.type in self._grammar.containers and length > self._limit:
            body = definition.child_by_field_name("body")
            if body is not None and depth < _DEEPEST:
                yield from self._walk(body, symbol, depth + 1)

    def _definition(self, node: Node) -> Node | None:
        """Look through decorators, exports and templates."""
        for _ in range(4):
            if node.type in self._grammar.definitions:
                return node
            if node.type not in self._grammar.wrappers:
                return None
            inner = [
                child
                for child in node.children
                if child.type in self._grammar.definitions | self._grammar.wrappers
            ]
            if not inner:
                return None
            node = inner[-1]
        return None

    def _with_comments(self, node: Node) -> int:
        """Find the first line of the comments and attributes right above a definition."""
        start: int = node.start_point.row
        above = node.prev_sibling
        while above is not None and above.end_point.row >= start - 1 and _is_annotation(above):
            start = min(start, above.start_point.row)
            above = above.prev_sibling
        return start


def _is_annotation(node: Node) -> bool:
    return "comment" in node.type or node.type in {"attribute_item", "decorator"}


def _pieces(lines: Sequence[str], span: _Span, options: IngestOptions) -> Iterator[CodePiece]:
    """Cut a span that is too long, at blank lines where that is possible."""
    limit = options.code_characters
    start = span.start
    while start < span.end:
        end, length = start, 0
        while end < span.end and (end == start or length + len(lines[end]) + 1 <= limit):
            length += len(lines[end]) + 1
            end += 1
        if end < span.end:
            end = _better_end(lines, start, end)
        if any(line.strip() for line in lines[start:end]):
            yield from _piece(lines, start, end, span.symbol, limit)
        start = end


def _better_end(lines: Sequence[str], start: int, end: int) -> int:
    """Move the cut back to a blank line in the second half of the piece."""
    for at in range(end, start + (end - start) // 2, -1):
        if not lines[at - 1].strip():
            return at
    return end


def _piece(
    lines: Sequence[str], start: int, end: int, symbol: str, limit: int
) -> Iterator[CodePiece]:
    while not lines[start].strip():
        start += 1
    while not lines[end - 1].strip():
        end -= 1
    text = "\n".join(lines[start:end])
    if end - start == 1 and len(text) > limit:
        for part in slices(text, limit):
            yield CodePiece(part, symbol, start + 1, end)
    else:
        yield CodePiece(text, symbol, start + 1, end)
