"""Experts that a user added for good: a folder of packs for every base."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from ..errors import PackError
from .composed import FILE_NAME as COMPOSED
from .pack import ADAPTER_CONFIG, ADAPTER_WEIGHTS, CARD, PILOTS

HOME = "OMNIEMBED_HOME"
"""Environment variable that names the folder of everything a user keeps."""

PACK_FILES = (CARD, ADAPTER_CONFIG, ADAPTER_WEIGHTS, PILOTS, COMPOSED)
_REMOVED = "removed.json"


def home() -> Path:
    """Find the folder of everything a user keeps.

    Returns:
        ``$OMNIEMBED_HOME``, or ``~/.omniembed``.
    """
    return Path(os.environ.get(HOME) or Path.home() / ".omniembed")


class InstalledPacks:
    """The packs that later processes load as well, and the bundled ones they leave out.

    Args:
        fingerprint: of the base; packs of another base are of no use.
    """

    def __init__(self, fingerprint: str) -> None:
        self._folder = home() / "experts" / fingerprint

    def folders(self) -> list[Path]:
        """List the packs.

        Returns:
            Their folders, by name.
        """
        return sorted(card.parent for card in self._folder.glob(f"*/{CARD}"))

    def removed(self) -> set[str]:
        """List the bundled experts that were removed for good.

        Returns:
            Their names.
        """
        try:
            names = json.loads((self._folder / _REMOVED).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return set()
        except (OSError, ValueError) as error:
            raise PackError(
                f"{self._folder / _REMOVED} is unreadable; delete it: {error}"
            ) from error
        return {str(name) for name in names}

    def install(self, pack: Path, name: str) -> Path:
        """Copy a pack that was checked.

        Args:
            pack: its folder; only files that belong to a pack are copied.
            name: of the expert.

        Returns:
            The copy.

        Raises:
            PackError: when the copy cannot be written.
        """
        target = self._folder / name
        if target.resolve() == pack.resolve():
            return target
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            # Beside the target, so that the rename that makes it visible is atomic.
            with tempfile.TemporaryDirectory(prefix=".new-", dir=self._folder) as scratch:
                fresh = Path(scratch) / name
                fresh.mkdir()
                for file in PACK_FILES:
                    if (pack / file).is_file():
                        shutil.copyfile(pack / file, fresh / file)
                if target.exists():
                    shutil.rmtree(target)
                fresh.replace(target)
            self._write_removed(self.removed() - {name})
        except OSError as error:
            raise PackError(
                f"cannot keep expert {name!r} in {self._folder}: {error.strerror or error}; "
                f"name another folder with {HOME}"
            ) from error
        return target

    def forget(self, name: str, *, bundled: bool) -> None:
        """Remove an expert for later processes.

        Args:
            name: of the expert.
            bundled: whether it ships with the model: then only a note is made.

        Raises:
            PackError: when that cannot be written.
        """
        try:
            shutil.rmtree(self._folder / name, ignore_errors=True)
            if bundled:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._write_removed(self.removed() | {name})
        except OSError as error:
            raise PackError(
                f"cannot remove expert {name!r} from {self._folder}: {error.strerror or error}"
            ) from error

    def restore(self, name: str) -> None:
        """Let a bundled expert load again.

        Args:
            name: of the expert.
        """
        self._write_removed(self.removed() - {name})

    def _write_removed(self, names: set[str]) -> None:
        path = self._folder / _REMOVED
        if not names:
            path.unlink(missing_ok=True)
            return
        partial = path.with_suffix(f".{os.getpid()}.partial")
        partial.write_text(json.dumps(sorted(names)) + "\n", encoding="utf-8")
        partial.replace(path)
