"""Cutting prose into passages: by heading, paragraph, sentence, and only then by length."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .options import IngestOptions

_CJK_STOPS = "\u3002\uff01\uff1f\uff1b"
_SENTENCE_END = re.compile(rf"(?<=[.!?;{_CJK_STOPS}])(?:\s+|(?<=[{_CJK_STOPS}]))")


@dataclass(frozen=True, slots=True)
class Section:
    """A run of lines under one heading.

    Attributes:
        headings: from the outermost to the one above the lines.
        lines: text by line number, counted from 1.
    """

    headings: tuple[str, ...]
    lines: Sequence[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text of bounded length.

    Attributes:
        text: the piece.
        headings: those it stands under.
        start_line: its first line in the file.
        end_line: its last line, inclusive.
    """

    text: str
    headings: tuple[str, ...]
    start_line: int
    end_line: int


def cut(section: Section, options: IngestOptions) -> Iterator[Passage]:
    """Cut a section into passages.

    Args:
        section: any number of lines.
        options: lengths.

    Yields:
        Passages that together hold every non-blank line. Each but the first begins with the end
        of its predecessor, where that is short enough.
    """
    limit = options.text_characters
    room = limit - options.overlap_characters
    units = list(_units(section.lines, room))
    current: list[Passage] = []
    for unit in units:
        if current and _length(current) + 2 + len(unit.text) > limit:
            yield _join(current, section.headings)
            current = _tail(current, options.overlap_characters)
        current.append(unit)
    if current:
        yield _join(current, section.headings)


def _units(lines: Sequence[tuple[int, str]], limit: int) -> Iterator[Passage]:
    """Split into paragraphs, and those that are too long into sentences or slices."""
    paragraph: list[tuple[int, str]] = []
    for number, line in [*lines, (0, "")]:
        if line.strip():
            paragraph.append((number, line.rstrip()))
        elif paragraph:
            yield from _fit(paragraph, limit)
            paragraph = []


def _fit(paragraph: Sequence[tuple[int, str]], limit: int) -> Iterator[Passage]:
    text = "\n".join(line for _, line in paragraph)
    if len(text) <= limit:
        yield Passage(text, (), paragraph[0][0], paragraph[-1][0])
        return
    for number, line in paragraph:
        if len(line) <= limit:
            yield Passage(line, (), number, number)
            continue
        for piece in slices(line, limit):
            yield Passage(piece, (), number, number)


def slices(line: str, limit: int) -> Iterator[str]:
    """Split one long line at sentence ends, else at spaces, else anywhere.

    Args:
        line: the line.
        limit: characters a piece.

    Yields:
        Non-blank pieces of at most ``limit`` characters that together hold every word.
    """
    current = ""
    for sentence in _SENTENCE_END.split(line):
        rest = sentence
        if current and len(current) + 1 + len(rest) > limit:
            yield current
            current = ""
        while len(rest) > limit:
            at = rest.rfind(" ", limit // 2, limit + 1)
            at = at if at > 0 else limit
            if rest[:at].strip():
                yield rest[:at].strip()
            rest = rest[at:].lstrip()
        current = f"{current} {rest}".strip()
    if current:
        yield current


def _length(units: Sequence[Passage]) -> int:
    return sum(len(unit.text) for unit in units) + 2 * (len(units) - 1)


def _tail(units: Sequence[Passage], overlap: int) -> list[Passage]:
    kept: list[Passage] = []
    for unit in reversed(units):
        if _length([unit, *kept]) > overlap:
            break
        kept.insert(0, unit)
    return kept


def _join(units: Sequence[Passage], headings: tuple[str, ...]) -> Passage:
    text = "\n\n".join(unit.text for unit in units)
    return Passage(text, headings, units[0].start_line, units[-1].end_line)
