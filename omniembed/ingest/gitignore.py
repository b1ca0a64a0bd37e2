"""Patterns of a .gitignore file, matched as git matches them during a walk.

Each folder and file is asked about by itself, from the top down, so a pattern counts only where
it matches the whole path, and a later pattern overrules an earlier one. Libraries that answer for
a path in one step cannot tell ``!*/`` after ``*`` from a match of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of a .gitignore file.

    Attributes:
        parts: the pattern's path; ``**`` stands for any number of folders.
        negated: True for ``!``.
        folders_only: True for a trailing ``/``.
    """

    parts: tuple[str, ...]
    negated: bool
    folders_only: bool


def parse(lines: Iterable[str]) -> list[Pattern]:
    """Read a .gitignore file.

    Args:
        lines: of the file.

    Returns:
        Its patterns, in order.
    """
    patterns = []
    for raw in lines:
        line = re.sub(r"(?<!\\)[ \t\r]+\Z", "", raw)
        if not line or line.startswith("#"):
            continue
        negated = line.startswith("!")
        body = line[1:] if negated else line
        folders_only = body.endswith("/")
        body = body.rstrip("/") if folders_only else body
        anchored = "/" in body
        parts = [part for part in body.split("/") if part]
        if parts:
            if not anchored:
                parts.insert(0, "**")
            patterns.append(Pattern(tuple(parts), negated, folders_only))
    return patterns


def verdict(patterns: Sequence[Pattern], path: Sequence[str], *, folder: bool) -> bool | None:
    """Tell what a .gitignore file says of a path.

    Args:
        patterns: of the file.
        path: parts relative to the file's folder.
        folder: True when the path is a folder.

    Returns:
        True to ignore it, False to keep it, ``None`` where no pattern matches.
    """
    for pattern in reversed(patterns):
        if (folder or not pattern.folders_only) and _matches(pattern.parts, path):
            return not pattern.negated
    return None


def _matches(pattern: Sequence[str], path: Sequence[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(path)  # what lies in the folder, not the folder itself
        return any(_matches(pattern[1:], path[start:]) for start in range(len(path)))
    if not path or _part(pattern[0]).fullmatch(path[0]) is None:
        return False
    return _matches(pattern[1:], path[1:])


@lru_cache(maxsize=1024)
def _part(glob: str) -> re.Pattern[str]:
    """Translate one part of a pattern; a malformed one matches nothing, as in git."""
    out, at = "", 0
    while at < len(glob):
        letter = glob[at]
        at += 1
        if letter == "*":
            out += "" if out.endswith(".*") else ".*"
        elif letter == "?":
            out += "."
        elif letter == "\\" and at < len(glob):
            out += re.escape(glob[at])
            at += 1
        elif letter == "[":
            end = glob.find("]", at + 1 + (glob[at : at + 1] in ("!", "^")))
            if end < 0:
                return re.compile(r"(?!)")
            inner = glob[at:end].replace("\\", "\\\\").replace("[", "\\[")
            out += f"[^{inner[1:]}]" if inner[0] in "!^" else f"[{inner}]"
            at = end + 1
        else:
            out += re.escape(letter)
    try:
        return re.compile(out, re.DOTALL)
    except re.error:
        return re.compile(r"(?!)")
