"""What belongs to one visitor alone: their experts, tools, composed turns and files."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

from ..embedder import Embedder
from ..experts import ExpertRegistry
from ..experts.installed import InstalledPacks
from ..sdk import OmniEmbed
from ..types import Hit
from .library import Library
from .training import Training
from .turns import Conversation

MAX_OWN_EXPERTS = 8


class Visitor:
    """One session. Copies made of the template share the library and nothing else.

    A visitor starts on the registry that all share. The first change makes a registry of their
    own over the same model, so that nobody else's queries meet an uploaded expert, and none of
    it outlives the session.

    Args:
        library: what everybody searches.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.conversation = Conversation()
        self.shown: tuple[Hit, ...] = ()
        self.tools: OmniEmbed | None = None
        self.training: Training | None = None
        self.added: set[str] = set()
        self._own: Embedder | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> Visitor:
        """Start a session: Gradio copies the template for each."""
        return Visitor(self.library)

    @property
    def embedder(self) -> Embedder:
        """Encodes with the experts that this visitor sees."""
        return self._own or self.library.omni.embedder

    @property
    def experts(self) -> list[str]:
        """Names of the experts that this visitor sees."""
        return [card.name for card in self.embedder.experts.list()]

    def own_experts(self) -> ExpertRegistry:
        """Give the registry that this visitor may change.

        Returns:
            A registry of their own, made at the first call.
        """
        with self._lock:
            if self._own is None:
                model = self.library.omni.model
                registry = ExpertRegistry(
                    model.manifest,
                    model.directory / "experts",
                    installed=InstalledPacks(model.manifest.fingerprint),
                    model=model,
                )
                self._own = Embedder(model, registry)
            return self._own.experts

    def reset_experts(self) -> None:
        """Go back to the experts that all share."""
        with self._lock:
            self._own = None
            self.added.clear()

    def folder(self, name: str) -> Path:
        """Make an empty folder that goes with the session.

        Args:
            name: of the folder; what it held is deleted.

        Returns:
            The folder.
        """
        with self._lock:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="omniembed-visitor-")
            path = Path(self._folder.name) / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def close(self) -> None:
        """Stop what the session runs and delete its files."""
        if self.training is not None:
            self.training.stop()
        with self._lock:
            folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()
