"""Sections of structured text: Markdown, reStructuredText, HTML, plain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from .passages import Section

if TYPE_CHECKING:
    from bs4.element import Tag

_MD_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_UNDERLINE = re.compile(r"([=\-`:.'\"~^_*+#])\1{2,}\s*$")
_HTML_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_HTML_BLOCKS = frozenset(
    {
        "address",
        "article",
        "aside",
        "blockquote",
        "br",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hr",
        "li",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "summary",
        "table",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "tr",
        "ul",
    }
)
_HTML_DROPPED = ("script", "style", "noscript", "template", "svg", "head")


def plain_sections(text: str) -> list[Section]:
    """Take a text without markup as one section.

    Args:
        text: the file.

    Returns:
        One section.
    """
    return [Section((), list(enumerate(text.split("\n"), 1)))]


def markdown_sections(text: str) -> list[Section]:
    """Split Markdown at its headings; ``#`` in fenced code is no heading.

    Args:
        text: the file.

    Returns:
        Sections; heading lines belong to the section they open.
    """
    lines = text.split("\n")
    marks: dict[int, tuple[int, str]] = {}
    front = _front_matter(lines)
    fence = ""
    for index, line in enumerate(lines):
        if index < front:
            continue
        if mark := _FENCE.match(line):
            closes = mark[1].startswith(fence) and not mark[2].strip()
            if not fence or closes:
                fence = "" if fence else mark[1]
        elif not fence and (heading := _heading(lines, index, marks)):
            marks[heading[0]] = heading[1:]
    return _sections(lines, marks)


def _front_matter(lines: Sequence[str]) -> int:
    """Count the lines of a YAML block at the beginning, whose end looks like an underline."""
    if lines[0].rstrip() != "---":
        return 0
    ends = (at for at, line in enumerate(lines[1:200], 1) if line.rstrip() in {"---", "..."})
    return next(ends, -1) + 1


def _heading(
    lines: Sequence[str], index: int, marks: dict[int, tuple[int, str]]
) -> tuple[int, int, str] | None:
    """Read a heading that begins or is underlined in a line: its line, level and title."""
    line = lines[index]
    if heading := _MD_HEADING.match(line):
        title = heading[2].strip()
        bare = title.rstrip("#")
        title = bare.rstrip() if bare != title and (not bare or bare[-1:].isspace()) else title
        return (index, len(heading[1]), title) if title else None
    if index and re.fullmatch(r" {0,3}(=+|-{2,})[ \t]*", line):
        title = lines[index - 1].strip()
        if title and index - 1 not in marks and not title.startswith(("-", "*", "|", ">")):
            return index - 1, 1 if "=" in line else 2, title
    return None


def rst_sections(text: str) -> list[Section]:
    """Split reStructuredText at its underlined titles.

    Args:
        text: the file.

    Returns:
        Sections; a title's level is the order in which its underline first appears.
    """
    lines = text.split("\n")
    marks: dict[int, tuple[int, str]] = {}
    levels: list[str] = []
    for index in range(1, len(lines)):
        title = lines[index - 1].strip()
        underline = _UNDERLINE.fullmatch(lines[index])
        if underline is None or not title or _UNDERLINE.fullmatch(title):
            continue
        if len(lines[index].rstrip()) < len(title):
            continue
        if underline[1] not in levels:
            levels.append(underline[1])
        marks[index - 1] = (levels.index(underline[1]) + 1, title)
    return _sections(lines, marks)


def html_sections(text: str) -> tuple[str, list[Section]]:
    """Split HTML at its headings, without scripts and styles.

    Args:
        text: the file.

    Returns:
        The page's title, and its sections. Line numbers are those of the source.
    """
    from bs4 import BeautifulSoup
    from bs4.element import PreformattedString

    soup = BeautifulSoup(text, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for tag in soup(list(_HTML_DROPPED)):
        tag.decompose()
    lines: list[tuple[int, str]] = []
    marks: dict[int, tuple[int, str]] = {}
    last: Tag | None = None
    for node in soup.find_all(string=True):
        words = " ".join(node.split())
        if not words or isinstance(node, PreformattedString):
            continue
        block = node.find_parent(_is_block)
        if lines and block is last:
            lines[-1] = (lines[-1][0], f"{lines[-1][1]} {words}")
            continue
        last = block
        number = block.sourceline if block is not None and block.sourceline else 1
        if block is not None and block.name in _HTML_HEADINGS:
            heading = block.get_text(" ", strip=True)
            marks[len(lines)] = (_HTML_HEADINGS[block.name], heading)
        # The blank line makes each block a paragraph.
        lines += [(number, ""), (number, words)]
    return title, _split(lines, marks)


def _is_block(tag: Tag) -> bool:
    return tag.name in _HTML_BLOCKS or tag.name in _HTML_HEADINGS


def _sections(lines: Sequence[str], marks: dict[int, tuple[int, str]]) -> list[Section]:
    return _split(list(enumerate(lines, 1)), marks)


def _split(lines: Sequence[tuple[int, str]], marks: dict[int, tuple[int, str]]) -> list[Section]:
    bounds = sorted({0, len(lines), *(at for at in marks if at < len(lines))})
    path: list[tuple[int, str]] = []
    result = []
    for start, end in pairwise(bounds):
        if start in marks:
            level, title = marks[start]
            path = [*(step for step in path if step[0] < level), (level, title)]
        section = Section(tuple(name for _, name in path), lines[start:end])
        if any(line.strip() for _, line in section.lines):
            result.append(section)
    return result
