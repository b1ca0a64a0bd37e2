"""``gate.json``: what the gate of a model needs beside the packs. No pickle anywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ModelError
from ..models.arrays import Floats

FILE_NAME = "gate.json"
FORMAT = 1


@dataclass(frozen=True)
class GateSettings:
    """How scores become decisions.

    Attributes:
        center: float32 (gate_dim,), subtracted from a state before it is compared.
        temperature: of the pooling over an expert's pilots; see :func:`.gate.gate_scores`.
        threshold: confidence below which the gate keeps to the base.
        ramp: width above the threshold over which the adapter's weight grows to its full strength.
        cover: probability that the kinds which a search keeps to must add up to.
        kinds: by class, float32 (gate_dim + 1,), of the :class:`.kinds.KindClassifier`; without
            any, a search keeps to no kinds.
        slope: of the confidence of an expert without a calibration of its own.
        offset: likewise.
        measured: how these were chosen, for people.
    """

    center: Floats
    temperature: float = 0.05
    threshold: float = 0.5
    ramp: float = 1e-6
    cover: float = 0.99
    slope: float = 12.0
    offset: float = -6.0
    kinds: Mapping[str, Floats] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)

    def write(self, directory: Path) -> None:
        """Write :data:`FILE_NAME`.

        Args:
            directory: of the model.
        """
        content = {"format": FORMAT, **asdict(self)}
        content["center"] = _rounded(self.center)
        content["kinds"] = {name: _rounded(row) for name, row in self.kinds.items()}
        text = json.dumps(content, indent=1)
        (directory / FILE_NAME).write_text(text + "\n", encoding="utf-8")


def read_settings(directory: Path, width: int) -> GateSettings | None:
    """Read :data:`FILE_NAME`.

    Args:
        directory: of the model.
        width: of the gate's state.

    Returns:
        The settings; ``None`` for a model without a gate.

    Raises:
        ModelError: when the file is malformed.
    """
    path = directory / FILE_NAME
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw.pop("format", None) != FORMAT:
            raise ModelError(f"{path} is not of format {FORMAT}, the one this version reads")
        center = np.array(raw.pop("center"), np.float32)
        kinds = {str(name): np.array(row, np.float32) for name, row in raw.pop("kinds", {}).items()}
        measured = dict(raw.pop("measured", {}))
        numbers = {name: float(value) for name, value in raw.items()}
        settings = GateSettings(center, **numbers, kinds=kinds, measured=measured)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(f"{path} is malformed: {error}; install the model again") from error
    vectors = {(width,): [center], (width + 1,): list(kinds.values())}
    usable = all(
        row.shape == shape and bool(np.isfinite(row).all())
        for shape, rows in vectors.items()
        for row in rows
    )
    if not usable or not all(math.isfinite(value) for value in numbers.values()):
        raise ModelError(
            f"{path}: give {width} finite values of 'center', one more for every kind, and "
            "finite settings"
        )
    if settings.temperature <= 0 or settings.ramp <= 0:
        raise ModelError(f"{path}: temperature and ramp must be above 0")
    return settings


def _rounded(row: Floats) -> list[float]:
    return [round(float(value), 6) for value in row]
