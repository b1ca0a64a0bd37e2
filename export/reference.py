"""What torch computes on a few inputs: the yardstick of every exported graph.

The vectors are kept beside the model, so that a directory can be checked again without torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import ExportError
from ..models.arrays import AdapterBank, Floats
from ..models.manifest import LoraTarget

FILE_NAME = "parity.safetensors"
ADAPTERS = (4, 8)
"""Ranks of the random adapters that the bank is checked with."""

ALPHA = 16
"""Their ``lora_alpha``; PEFT multiplies an update by alpha / rank."""


@dataclass(frozen=True)
class Reference:
    """Inputs, and what the torch towers make of them.

    Attributes:
        texts: the texts.
        vectors: float32 (n, dim), unit norm.
        states: float32 (n, gate_dim), unit norm, at the gate layer.
        adapted: an adapter each, float32 (n, dim).
        pixels: uint8 (m, side, side, 3); m is 0 for a model without a vision tower.
        pictures: float32 (m, dim), unit norm.
        adapted_pictures: an adapter each, float32 (m, dim); none for a frozen tower.
        spread: standard deviation of the weight of every LoRA layer, by name; the adapters are
            made from it.
    """

    texts: tuple[str, ...]
    vectors: Floats
    states: Floats
    adapted: tuple[Floats, ...]
    pixels: NDArray[np.uint8]
    pictures: Floats
    adapted_pictures: tuple[Floats, ...]
    spread: Mapping[str, float]

    def write(self, directory: Path) -> None:
        """Write the reference into a model directory.

        Args:
            directory: of the model.
        """
        from safetensors.numpy import save_file

        tensors = {
            "vectors": self.vectors,
            "states": self.states,
            "pixels": self.pixels,
            "pictures": self.pictures,
            **{f"adapted.{at}": one for at, one in enumerate(self.adapted)},
            **{f"adapted_pictures.{at}": one for at, one in enumerate(self.adapted_pictures)},
        }
        notes = {"texts": json.dumps(self.texts), "spread": json.dumps(dict(self.spread))}
        save_file(
            {name: np.ascontiguousarray(value) for name, value in tensors.items()},
            directory / FILE_NAME,
            metadata=notes,
        )


def read_reference(directory: Path) -> Reference:
    """Read the reference that an export left in a model directory.

    Args:
        directory: of the model.

    Returns:
        The reference.

    Raises:
        ExportError: when there is none, or it is damaged.
    """
    from safetensors import SafetensorError, safe_open

    path = directory / FILE_NAME
    try:
        with safe_open(path, framework="numpy") as stream:
            notes = stream.metadata() or {}
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
        return Reference(
            texts=tuple(json.loads(notes["texts"])),
            vectors=tensors["vectors"],
            states=tensors["states"],
            adapted=_numbered(tensors, "adapted"),
            pixels=tensors["pixels"],
            pictures=tensors["pictures"],
            adapted_pictures=_numbered(tensors, "adapted_pictures"),
            spread=json.loads(notes["spread"]),
        )
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise ExportError(
            f"{path} cannot be read: {error}. Only directories that omniembed export model wrote "
            "can be verified"
        ) from error


def _numbered(tensors: Mapping[str, Floats], name: str) -> tuple[Floats, ...]:
    return tuple(
        tensors[f"{name}.{at}"] for at in range(len(ADAPTERS)) if f"{name}.{at}" in tensors
    )


def adapter(
    number: int, targets: Sequence[LoraTarget], spread: Mapping[str, float]
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Make a random adapter, the same on every machine, strong enough to move vectors visibly.

    Args:
        number: which of :data:`ADAPTERS`.
        targets: the layers.
        spread: standard deviation of their weights.

    Returns:
        PEFT's A (rank, d_in) and B (d_out, rank) by layer, without scaling.
    """
    rank = ADAPTERS[number]
    a, b = {}, {}
    for at, target in enumerate(targets):
        random = np.random.default_rng([number, at])
        strength = 0.5 * spread[target.name] * target.d_in**0.5 / (ALPHA / rank * rank**0.5)
        a[target.name] = random.normal(0, target.d_in**-0.5, (rank, target.d_in))
        b[target.name] = random.normal(0, strength, (target.d_out, rank))
    return _floats(a), _floats(b)


def adapter_bank(targets: Sequence[LoraTarget], spread: Mapping[str, float]) -> AdapterBank:
    """Stack all random adapters, as the registry stacks those of experts.

    Args:
        targets: the layers of one tower or of both.
        spread: standard deviation of their weights.

    Returns:
        A bank whose row i + 1 is adapter i.
    """
    rows, rank = len(ADAPTERS) + 1, max(ADAPTERS)
    a = {one.name: np.zeros((rows, rank, one.d_in), np.float32) for one in targets}
    b = {one.name: np.zeros((rows, rank, one.d_out), np.float32) for one in targets}
    for number, own in enumerate(ADAPTERS):
        down, up = adapter(number, targets, spread)
        for name in a:
            a[name][number + 1, :own] = down[name]
            b[name][number + 1, :own] = up[name].T * np.float32(ALPHA / own)
    names = ("base", *(f"adapter {number + 1}" for number in range(len(ADAPTERS))))
    return AdapterBank(names, a, b)


def _floats(arrays: Mapping[str, NDArray[np.float64]]) -> dict[str, Floats]:
    return {name: value.astype(np.float32) for name, value in arrays.items()}
