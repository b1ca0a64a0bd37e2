"""Walking a folder as git would: ignored, hidden and generated files are passed over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..errors import IngestError, UnsupportedFileError
from ..types import Failure
from .gitignore import Pattern, parse, verdict
from .options import IngestOptions

_NEVER = frozenset({"__pycache__", "node_modules", ".git", ".hg", ".svn"})


def walk(root: Path, options: IngestOptions) -> Iterator[Path | Failure]:
    """List the files below a folder.

    Links to folders are not followed, so that no loop can form; links to files are, where the
    file lies below the same root.

    Args:
        root: an absolute path; itself never taken for hidden or ignored.
        options: what to pass over.

    Yields:
        Files in order of their names, and a failure for each folder that cannot be read.
    """
    rules = _Rules(root) if options.respect_gitignore else None
    pending = [root]
    while pending:
        folder = pending.pop()
        if rules is not None:
            rules.read(folder)
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            reason = IngestError(f"cannot read folder {folder}: {error.strerror or error}")
            yield Failure(folder.as_posix(), reason)
            continue
        folders = []
        for entry in entries:
            path = Path(entry.path)
            if not options.include_hidden and entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if not _is_generated(path) and not (rules and rules.ignores(path, folder=True)):
                    folders.append(path)
            elif not (rules and rules.ignores(path, folder=False)):
                yield from _file(entry, root)
        pending += reversed(folders)


def _file(entry: os.DirEntry[str], root: Path) -> Iterator[Path | Failure]:
    path = Path(entry.path)
    if not entry.is_symlink():
        # The folder tells the type of its entries, even where they may not be opened.
        if entry.is_file():
            yield path
        return
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):
        yield Failure(path.as_posix(), IngestError(f"{path} is a link to nothing"))
        return
    if not os.path.isfile(target):
        return
    if target.is_relative_to(root.resolve()):
        yield path
    else:
        reason = f"{path} is a link to a file outside {root}; index that file by its own path"
        yield Failure(path.as_posix(), UnsupportedFileError(reason))


def _is_generated(folder: Path) -> bool:
    return (
        folder.name in _NEVER
        or folder.suffix == ".lance"
        or os.path.isfile(folder / "pyvenv.cfg")
        or _is_store(folder)
    )


def _is_store(folder: Path) -> bool:
    """Recognise a LanceDB store under any name."""
    return os.path.isdir(folder / "documents.lance")


class _Rules:
    """The .gitignore files between the repository's root and the files in question."""

    def __init__(self, root: Path) -> None:
        self._patterns: dict[Path, list[Pattern]] = {}
        above = [root, *root.parents]
        tops = [folder for folder in above if os.path.exists(folder / ".git")]
        if tops:
            for folder in above[1 : above.index(tops[0]) + 1]:
                self.read(folder)
            if self._lies_in_ignored(root):
                # Somebody who points at an ignored folder wants it.
                self._patterns.clear()

    def read(self, folder: Path) -> None:
        """Take note of the rules in a folder."""
        try:
            text = (folder / ".gitignore").read_text(encoding="utf-8-sig", errors="replace")
        except OSError:
            return
        self._patterns[folder] = parse(text.split("\n"))

    def ignores(self, path: Path, *, folder: bool) -> bool:
        """Tell whether git would ignore a path; the rules nearest to it decide."""
        for parent in path.parents:
            patterns = self._patterns.get(parent)
            if patterns is not None:
                answer = verdict(patterns, path.relative_to(parent).parts, folder=folder)
                if answer is not None:
                    return answer
        return False

    def _lies_in_ignored(self, root: Path) -> bool:
        above = [root, *root.parents]
        return any(self.ignores(folder, folder=True) for folder in above)
