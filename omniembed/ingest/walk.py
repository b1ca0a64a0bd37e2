"""Walking a folder as git would: ignored, hidden and generated files are passed over."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import IngestError, UnsupportedFileError
from ..types import Failure
from .options import IngestOptions

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

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
                yield from _file(path, root)
        pending += reversed(folders)


def _file(path: Path, root: Path) -> Iterator[Path | Failure]:
    if not path.is_symlink():
        if path.is_file():
            yield path
        return
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):
        yield Failure(path.as_posix(), IngestError(f"{path} is a link to nothing"))
        return
    if not target.is_file():
        return
    if target.is_relative_to(root):
        yield path
    else:
        reason = f"{path} is a link to a file outside {root}; index that file by its own path"
        yield Failure(path.as_posix(), UnsupportedFileError(reason))


def _is_generated(folder: Path) -> bool:
    return (
        folder.name in _NEVER
        or folder.suffix == ".lance"
        or (folder / "pyvenv.cfg").is_file()
        or _is_store(folder)
    )


def _is_store(folder: Path) -> bool:
    """Recognise a LanceDB store under any name."""
    return (folder / "documents.lance").is_dir()


class _Rules:
    """The .gitignore files between the repository's root and the files in question."""

    def __init__(self, root: Path) -> None:
        self._specs: dict[Path, GitIgnoreSpec] = {}
        above = [root, *root.parents]
        tops = [folder for folder in above if (folder / ".git").exists()]
        if tops:
            for folder in above[1 : above.index(tops[0]) + 1]:
                self.read(folder)
            if self.ignores(root, folder=True):
                # Somebody who points at an ignored folder wants it.
                self._specs.clear()

    def read(self, folder: Path) -> None:
        """Take note of the rules in a folder."""
        from pathspec import GitIgnoreSpec

        try:
            lines: Sequence[str] = (
                (folder / ".gitignore").read_text(encoding="utf-8", errors="replace").splitlines()
            )
        except OSError:
            return
        self._specs[folder] = GitIgnoreSpec.from_lines(_valid(lines))

    def ignores(self, path: Path, *, folder: bool) -> bool:
        """Tell whether git would ignore a path; the rules nearest to it decide."""
        for parent in path.parents:
            spec = self._specs.get(parent)
            if spec is None:
                continue
            relative = path.relative_to(parent).as_posix()
            verdict = spec.check_file(f"{relative}/" if folder else relative).include
            if verdict is not None:
                return bool(verdict)
        return False


def _valid(lines: Sequence[str]) -> Iterator[str]:
    """Drop patterns that pathspec cannot read; git drops them too."""
    from pathspec import GitIgnoreSpec

    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:
            continue
        yield line
