"""``pilots.safetensors``: what a pack tells the gate about its expert."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..errors import PackError
from ..models.arrays import Floats

FILE_NAME = "pilots.safetensors"
MAX_PILOTS = 10_000


@dataclass(frozen=True)
class Pilots:
    """Where an expert is at home, at the gate's layer.

    Attributes:
        vectors: float32 (m, gate_dim), unit norm; one centroid for each data set whose queries
            the expert serves best (RouterRetriever, arXiv 2409.02685). m may be 0.
        datasets: of every pilot, where it came from.
        examples: of every pilot, the query nearest to it.
        direction: float32 (gate_dim,), unit norm; along it the expert's gain over the base grows.
            ``None`` for an expert that was not compared with the base on held-out queries.
        calibration: slope and offset that turn the score into the probability of a gain.
    """

    vectors: Floats
    datasets: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    direction: Floats | None = None
    calibration: tuple[float, float] | None = None

    @classmethod
    def none(cls, width: int) -> Pilots:
        """Make the pilots of an expert that the gate never chooses.

        Args:
            width: of the gate's state.

        Returns:
            No pilot at all.
        """
        return cls(np.empty((0, width), np.float32))

    def write(self, directory: Path) -> None:
        """Write :data:`FILE_NAME`.

        Args:
            directory: the pack.
        """
        from safetensors.numpy import save_file

        tensors = {"pilots": self.vectors.astype(np.float32)}
        if self.direction is not None:
            tensors["direction"] = self.direction.astype(np.float32)
        if self.calibration is not None:
            tensors["calibration"] = np.array(self.calibration, np.float32)
        notes = {"datasets": json.dumps(self.datasets), "examples": json.dumps(self.examples)}
        save_file(tensors, directory / FILE_NAME, metadata=notes)


@dataclass(frozen=True)
class _Checked:
    path: Path
    width: int
    tensors: Mapping[str, Floats]
    notes: Mapping[str, str] = field(default_factory=dict)

    def unit(self, name: str, array: Floats) -> Floats:
        if array.ndim != 2 or array.shape[1] != self.width or len(array) > MAX_PILOTS:
            raise PackError(
                f"{self.path}: {name!r} must be float32 (m, {self.width}) with m up to "
                f"{MAX_PILOTS}; found shape {array.shape}"
            )
        norm = np.linalg.norm(array, axis=1, keepdims=True)
        if (norm < 1e-6).any():
            raise PackError(f"{self.path}: a row of {name!r} is zero")
        return np.asarray(array / norm, np.float32)

    def texts(self, name: str, count: int) -> tuple[str, ...]:
        try:
            found = json.loads(self.notes.get(name, "[]"))
        except ValueError as error:
            raise PackError(f"{self.path}: {name} is malformed: {error}") from error
        if not isinstance(found, list) or len(found) not in (0, count):
            raise PackError(f"{self.path}: {name} must be a list of {count} texts")
        return tuple(str(text) for text in found)


def parse_pilots(
    path: Path, tensors: Mapping[str, Floats], notes: Mapping[str, str], width: int
) -> Pilots:
    """Check what a pack tells the gate.

    Args:
        path: for messages.
        tensors: of the file, finite float32.
        notes: its metadata.
        width: of the gate's state.

    Returns:
        The pilots.

    Raises:
        PackError: when something is missing or of the wrong shape.
    """
    checked = _Checked(path, width, tensors, notes)
    if "pilots" not in tensors:
        raise PackError(f"{path}: there is no tensor 'pilots' of shape (m, {width})")
    vectors = checked.unit("pilots", tensors["pilots"])
    direction = tensors.get("direction")
    calibration = tensors.get("calibration")
    if calibration is not None and calibration.shape != (2,):
        raise PackError(f"{path}: 'calibration' has shape {calibration.shape}, not (2,)")
    return Pilots(
        vectors,
        checked.texts("datasets", len(vectors)),
        checked.texts("examples", len(vectors)),
        None if direction is None else checked.unit("direction", direction[None])[0],
        None if calibration is None else (float(calibration[0]), float(calibration[1])),
    )
