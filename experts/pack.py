"""Reading an expert pack: card, PEFT adapter and pilots, all checked before anything is used."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import PackError
from ..models.arrays import Floats
from ..models.manifest import LoraTarget, Manifest
from .card import FILE_NAME as CARD
from .card import ExpertCard, read_card
from .composed import FILE_NAME as COMPOSED
from .composed import ComposedParts, parse_parts
from .pilots import FILE_NAME as PILOTS
from .pilots import Pilots, parse_pilots

__all__ = [
    "ADAPTER_CONFIG",
    "ADAPTER_WEIGHTS",
    "CARD",
    "PILOTS",
    "ExpertPack",
    "load_pack",
]

MAX_RANK = 256
MAX_FILE_BYTES = 256_000_000
ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"

_KEY = re.compile(r"base_model\.model\.(?P<layer>.+)\.lora_(?P<side>[AB])(?:\.default)?\.weight")
_UNSUPPORTED = ("use_dora", "modules_to_save", "layer_replication", "lora_bias")


@dataclass(frozen=True)
class ExpertPack:
    """An expert in memory.

    Attributes:
        card: its description.
        a: by layer name, float32 (rank, d_in).
        b: by layer name, float32 (rank, d_out), with PEFT's scaling folded in.
        gate: what it tells the gate.
        composed: what turns a picture and a text into one query; ``None`` for most experts.
    """

    card: ExpertCard
    a: Mapping[str, Floats]
    b: Mapping[str, Floats]
    gate: Pilots
    composed: ComposedParts | None = None

    @property
    def pilots(self) -> Floats:
        """float32 (m, gate_dim), unit norm; m may be 0."""
        return self.gate.vectors

    @property
    def rank(self) -> int:
        """Largest rank among its layers."""
        return max(len(array) for array in self.a.values())


def load_pack(directory: str | Path, manifest: Manifest) -> ExpertPack:
    """Read and check a pack.

    Args:
        directory: with card.json, adapter_config.json, adapter_model.safetensors and, where the
            gate is to choose the expert, pilots.safetensors; for composed queries also
            composed.safetensors.
        manifest: of the base that the expert is to serve.

    Returns:
        The expert.

    Raises:
        PackError: when the pack is incomplete, malformed, or made for another base.
    """
    folder = Path(directory)
    if not folder.is_dir():
        raise PackError(f"no expert pack {str(directory)!r}: not a directory")
    card = read_card(folder)
    if card.base != manifest.fingerprint:
        raise PackError(
            f"expert {card.name!r} was trained for base {card.base}, but the model "
            f"{manifest.name!r} is {manifest.fingerprint}; train it again for this model"
        )
    config = _read_config(folder / ADAPTER_CONFIG)
    tensors = _read_tensors(folder / ADAPTER_WEIGHTS)
    a, b = _adapter(card.name, config, tensors, manifest.adaptable)
    pilots = _pilots(folder / PILOTS, manifest.gate_dim)
    return ExpertPack(card, a, b, pilots, _composed(card.name, folder / COMPOSED, manifest))


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads(_read(path))
        kind = config.get("peft_type")
    except (ValueError, AttributeError, RecursionError) as error:
        raise PackError(f"{path} is malformed: {error}") from error
    if kind != "LORA":
        raise PackError(f"{path} holds a {kind!r} adapter; only LORA can be used")
    used = [name for name in _UNSUPPORTED if config.get(name)]
    if config.get("bias", "none") != "none":
        used.append("bias")
    if used:
        raise PackError(f"{path} uses {', '.join(used)}, which the bank cannot express")
    return config


def _read_tensors(path: Path) -> dict[str, Floats]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors: dict[str, Any] = load(_read(path))
    except (SafetensorError, ValueError, KeyError, TypeError, MemoryError) as error:
        raise PackError(f"{path} is not a readable safetensors file: {error}") from error
    result = {}
    for name, tensor in tensors.items():
        if tensor.dtype not in (np.float16, np.float32):
            raise PackError(f"{path}: {name} is {tensor.dtype}; store float16 or float32")
        if not np.isfinite(tensor).all():
            raise PackError(f"{path}: {name} holds NaN or infinite values")
        result[name] = tensor.astype(np.float32)
    return result


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise PackError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
        return path.read_bytes()
    except OSError as error:
        raise PackError(f"cannot read {path}: {error.strerror or error}") from error


def _adapter(
    name: str, config: dict[str, Any], tensors: dict[str, Floats], targets: Sequence[LoraTarget]
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    sides: dict[str, dict[str, Floats]] = {"A": {}, "B": {}}
    for key, tensor in tensors.items():
        match = _KEY.fullmatch(key)
        if match is None:
            raise PackError(f"expert {name!r}: {key!r} is no LoRA weight of PEFT's naming")
        sides[match["side"]][match["layer"]] = tensor
    widths = {target.name: target for target in targets}
    a, b = sides["A"], sides["B"]
    if not a or a.keys() != b.keys():
        raise PackError(f"expert {name!r}: every layer needs a lora_A and a lora_B weight")
    unknown = sorted(a.keys() - widths.keys())
    if unknown:
        raise PackError(
            f"expert {name!r} changes layer {unknown[0]!r}, which the base keeps frozen; "
            f"its adapters may change: {', '.join(sorted(widths))}"
        )
    for layer in a:
        _check_shapes(name, layer, a[layer], b[layer], widths[layer])
        b[layer] = np.ascontiguousarray(b[layer].T) * np.float32(
            _scaling(config, a[layer].shape[0])
        )
    return a, b


def _check_shapes(name: str, layer: str, a: Floats, b: Floats, target: LoraTarget) -> None:
    if a.ndim != 2 or b.ndim != 2 or not 1 <= a.shape[0] <= MAX_RANK:
        raise PackError(
            f"expert {name!r}, {layer}: weights must be matrices of rank 1 to {MAX_RANK}, "
            f"not {a.shape} and {b.shape}"
        )
    wanted = (a.shape[0], target.d_in), (target.d_out, a.shape[0])
    if (a.shape, b.shape) != wanted:
        raise PackError(
            f"expert {name!r}, {layer}: shapes {a.shape} and {b.shape} do not fit the base, "
            f"which needs {wanted[0]} and {wanted[1]}"
        )


def _scaling(config: dict[str, Any], rank: int) -> float:
    """Compute PEFT's factor on an adapter: alpha / r, or alpha / sqrt(r) for rsLoRA."""
    try:
        alpha = float(config["lora_alpha"])
    except (KeyError, TypeError, ValueError) as error:
        raise PackError(f"{ADAPTER_CONFIG} has no usable lora_alpha: {error}") from error
    factor = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
    if not math.isfinite(factor) or config.get("rank_pattern") or config.get("alpha_pattern"):
        raise PackError(f"{ADAPTER_CONFIG}: give one finite lora_alpha and one rank for all layers")
    return factor


def _composed(name: str, path: Path, manifest: Manifest) -> ComposedParts | None:
    if not path.exists():
        return None
    if manifest.word_dim not in (0, manifest.dim):
        raise PackError(
            f"expert {name!r} has {COMPOSED}, but the base {manifest.name!r} has words of "
            f"{manifest.word_dim} dimensions and vectors of {manifest.dim}; pseudo-words need both "
            "to be the same"
        )
    return parse_parts(name, _read_tensors(path), manifest.dim)


def _pilots(path: Path, width: int) -> Pilots:
    if not path.exists():
        return Pilots.none(width)
    tensors = _read_tensors(path)
    return parse_pilots(path, tensors, _notes(path), width)


def _notes(path: Path) -> dict[str, str]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as stream:
            return dict(stream.metadata() or {})
    except (SafetensorError, OSError, ValueError) as error:
        raise PackError(f"{path} is not a readable safetensors file: {error}") from error
