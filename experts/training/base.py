"""Everything frozen that training needs: the model, its torch twin and the caches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...models.model import Model
from .lora import upper_targets
from .tower import TorchTower, load_tower
from .vectors import ModelEncoder, VectorCache


@dataclass(frozen=True)
class Base:
    """The frozen base.

    Attributes:
        fingerprint: of the model directory.
        tower: torch weights of the text tower.
        targets: linear layers that adapters may change.
        cache: document vectors, as the model directory computes them.
        states: folder of cached query states.
    """

    fingerprint: str
    tower: TorchTower
    targets: tuple[str, ...]
    cache: VectorCache
    states: Path


def load_base(
    model: str | Path | Model = "mini",
    *,
    cache: Path,
    weights: Path | None = None,
    bf16: bool = False,
) -> Base:
    """Load a model for training.

    Args:
        model: name of a bundled model, a model directory, or a loaded model.
        cache: folder where document vectors and query states are kept between runs.
        weights: Hugging Face folder of the text tower; found by itself for bundled models.
        bf16: train in bfloat16; see :class:`TorchTower`.

    Returns:
        The base.
    """
    loaded = Model.load(model)
    manifest = loaded.manifest
    return Base(
        fingerprint=manifest.fingerprint,
        tower=load_tower(manifest, weights, bf16=bf16),
        targets=upper_targets([target.name for target in manifest.lora], manifest.gate_layer),
        cache=VectorCache(cache / "documents", ModelEncoder(loaded)),
        states=cache / "queries" / manifest.fingerprint,
    )
