"""The folders whose files the page may show, and how their paths are named to visitors."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True)
class Roots:
    """Where the indexed files lie.

    Attributes:
        folders: resolved folders and files; nothing outside them is ever read for a visitor.
        top: the folder that shown paths are relative to; empty where there is none in common.
    """

    folders: tuple[Path, ...]
    top: str = ""

    @classmethod
    def of_path(cls, path: Path) -> Roots:
        """Take what a path or glob reaches.

        Args:
            path: a file, a folder or a glob.

        Returns:
            The roots.
        """
        fixed = Path(path.anchor)
        for part in path.absolute().parts[1:]:
            if _WILDCARDS & set(part):
                break
            fixed /= part
        fixed = fixed if fixed.anchor else path.absolute()
        top = fixed.parent if fixed.is_file() else fixed
        return cls((fixed.resolve(),), top.as_posix())

    @classmethod
    def of_sources(cls, sources: Iterable[str]) -> Roots:
        """Take the folders of the files that a store was filled from.

        Args:
            sources: as the store names them; records, which are no files, are passed over.

        Returns:
            The roots.
        """
        folders = sorted({str(Path(one).parent) for one in sources if Path(one).is_absolute()})
        try:
            common = os.path.commonpath(folders) if folders else ""
        except ValueError:  # on different drives
            common = ""
        top = "" if not common or Path(common) == Path(Path(common).anchor) else common
        return cls(tuple(Path(folder).resolve() for folder in folders), Path(top).as_posix())

    def allows(self, path: Path) -> bool:
        """Tell whether a file may be shown.

        Args:
            path: of the file; links are followed before it is judged.

        Returns:
            True when it lies below a root.
        """
        real = path.resolve()
        return any(real.is_relative_to(folder) for folder in self.folders)

    def shown(self, uri: str) -> str:
        """Name a document to visitors without telling where the host keeps it.

        Args:
            uri: of the document.

        Returns:
            The path below the common folder; of an absolute path elsewhere the last two parts.
        """
        if self.top and uri.startswith(f"{self.top}/"):
            return uri[len(self.top) + 1 :]
        if Path(uri).is_absolute():
            return "/".join(PurePosixPath(Path(uri).as_posix()).parts[-2:]).lstrip("/")
        return uri
