"""What steers the model's graphs, in one file: adapter bank, gate, parts of composed queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...experts.composed import ComposedParts
from ...experts.registry import LoadedExperts
from ...models.manifest import LoraTarget
from ...router import GateSettings, assemble

FILE_NAME = "steering.safetensors"


def write_steering(
    folder: Path,
    experts: LoadedExperts,
    targets: Sequence[LoraTarget],
    settings: GateSettings | None,
) -> None:
    """Write :data:`FILE_NAME`.

    Tensors named as inputs of the text graph are fed to it as they are. Those of composed experts
    are called ``composed.<expert>.<name in composed.safetensors>``; ``kinds`` is the classifier of
    kinds, a row a class, its bias last.

    Args:
        folder: of the bundle.
        experts: those to serve.
        targets: layers of the text graph that carry adapters.
        settings: of the gate; ``None`` for a model without one.
    """
    from safetensors.numpy import save_file

    tensors: dict[str, NDArray[Any]] = dict(experts.bank.feeds(targets))
    if settings is not None:
        tensors.update(assemble(settings, experts.packs, experts.bank.names).feeds())
        if settings.kinds:
            tensors["kinds"] = np.stack(list(settings.kinds.values()))
    for name, pack in experts.packs.items():
        if pack.composed is not None:
            tensors.update(_composed(name, pack.composed))
    gated = {"pilots", "pilot_owners", "gate_center", "gate_experts", "gate_settings", "kinds"}
    saved = {
        name: np.ascontiguousarray(array if name in gated else _smallest(array))
        for name, array in tensors.items()
    }
    save_file(saved, folder / FILE_NAME)
    (folder / FILE_NAME).chmod(0o644)  # safetensors lets nobody else read what it writes


def _composed(expert: str, parts: ComposedParts) -> dict[str, NDArray[np.float32]]:
    return {f"composed.{expert}.{name}": array for name, array in parts.tensors().items()}


def _smallest(array: NDArray[Any]) -> NDArray[Any]:
    """Store in half precision where that loses nothing, as it does for shipped adapters."""
    with np.errstate(over="ignore"):
        half = array.astype(np.float16)
    return half if np.array_equal(half.astype(array.dtype), array) else array
