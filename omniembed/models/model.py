"""A loaded model directory."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from ..errors import ModelError
from .manifest import Manifest, read_manifest, verify_hashes
from .session import SessionOptions
from .text import TextTower
from .vision import VisionTower

BUNDLED = Path(__file__).parent.parent / "data" / "models"


class Model:
    """The frozen base: manifest and towers. Nothing is read before it is used.

    Args:
        directory: a model directory (format 1).
        options: how ONNX Runtime runs.
    """

    def __init__(self, directory: Path, options: SessionOptions = SessionOptions()) -> None:
        self.directory = directory
        self._options = options

    @classmethod
    def load(cls, model: str | Path | Model, options: SessionOptions = SessionOptions()) -> Model:
        """Find a model.

        Args:
            model: the name of a bundled model, a model directory, or a model (returned as is).
            options: how ONNX Runtime runs.

        Returns:
            The model.

        Raises:
            ModelError: when there is no such model.
        """
        if isinstance(model, Model):
            return model
        if isinstance(model, str) and (BUNDLED / model / "model.json").is_file():
            return cls(BUNDLED / model, options)
        directory = Path(model)
        if not directory.is_dir():
            raise ModelError(
                f"no model {str(model)!r}: not a directory, and not one of the bundled models "
                f"({', '.join(bundled_models())})"
            )
        return cls(directory, options)

    @cached_property
    def manifest(self) -> Manifest:
        """The contents of ``model.json``."""
        return read_manifest(self.directory)

    @cached_property
    def text(self) -> TextTower:
        """The text tower."""
        return TextTower(self.directory, self.manifest, self._options)

    @cached_property
    def vision(self) -> VisionTower:
        """The vision tower; a typed error when the model reads text only."""
        preprocessing = self.manifest.image
        if preprocessing is None:
            raise ModelError(
                f"model {self.manifest.name!r} has no vision tower; use model='mini' for images"
            )
        return VisionTower(self.directory, self.manifest, preprocessing, self._options)

    def verify(self) -> None:
        """Compare every file with its recorded digest.

        Raises:
            ModelError: when a file is damaged.
        """
        verify_hashes(self.directory, self.manifest)


def bundled_models() -> list[str]:
    """List the models that ship with the package.

    Returns:
        Names, sorted.
    """
    return sorted(path.parent.name for path in BUNDLED.glob("*/model.json"))
