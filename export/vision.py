"""Vision towers that project by themselves, with adapters as inputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from ..experts.training.backbones.source import VisionSource
from .adapters import AdapterChoice, attach_bank
from .locate import export_onnx
from .text import OPSET

OUTPUTS = ("vector", "features")
_BLOCK = re.compile(r"(?:^|\.)(?:resblocks|blocks|layers?)\.(\d+)\.")


class Pictures(nn.Module):
    """From bytes to vectors.

    Args:
        source: the tower.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, source: VisionSource) -> None:
        super().__init__()
        self.visual = source.module
        self.register_buffer("mean", torch.tensor(source.mean)[None, :, None, None])
        self.register_buffer("std", torch.tensor(source.std)[None, :, None, None])

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Encode pictures.

        Args:
            pixels: uint8 (n, side, side, 3).

        Returns:
            float32 (n, dim), unit norm, and the same before it was normalised.
        """
        scaled = (pixels.permute(0, 3, 1, 2).float() / 255.0 - self.mean) / self.std
        output = self.visual(scaled)
        raw = output[0] if isinstance(output, tuple) else output
        return normalize(raw, dim=-1), raw


class RoutedVision(nn.Module):
    """The same, with the adapters that its inputs choose.

    Args:
        pictures: the tower; changed in place.
        targets: linear layers that carry adapters.
    """

    def __init__(self, pictures: Pictures, targets: Sequence[str]) -> None:
        super().__init__()
        self.pictures = pictures
        self.targets = tuple(targets)
        self._choice = AdapterChoice()
        attach_bank(pictures, targets, self._choice)

    def forward(
        self,
        pixels: Tensor,
        expert: Tensor,
        weight: Tensor,
        lora_a: list[Tensor],
        lora_b: list[Tensor],
    ) -> tuple[Tensor, Tensor]:
        """Encode pictures.

        Args:
            pixels: uint8 (n, side, side, 3).
            expert: int64 (n, k), bank rows.
            weight: float32 (n, k), strength of each.
            lora_a: a target each, float32 (e, rank, d_in).
            lora_b: a target each, float32 (e, rank, d_out).

        Returns:
            Tensors in the order of :data:`OUTPUTS`.
        """
        self._choice.set(expert, weight, self.targets, lora_a, lora_b)
        vector, features = self.pictures(pixels)
        return vector, features


def vision_targets(pictures: Pictures) -> list[str]:
    """List the linear layers in the upper half of a tower's blocks.

    Args:
        pictures: the tower.

    Returns:
        Dotted paths, beginning with ``visual``; none for towers without such blocks.
    """
    found = [
        (int(match[1]), name)
        for name, module in pictures.named_modules()
        if isinstance(module, nn.Linear) and (match := _BLOCK.search(name))
    ]
    half = (max(index for index, _ in found) + 1) // 2 if found else 0
    return [name for index, name in found if index >= half]


def export_vision(tower: RoutedVision, path: Path, *, side: int) -> None:
    """Export a tower in fp32.

    Args:
        tower: in eval mode.
        path: where to write.
        side: of the square input, pixels.

    Raises:
        ExportError: naming a module that cannot be exported.
    """
    rows, k, experts, rank = 3, 2, 4, 6
    layers = [cast("nn.Linear", tower.pictures.get_submodule(one).base) for one in tower.targets]
    pixels = torch.zeros(rows, side, side, 3, dtype=torch.uint8)
    example = {
        "pixels": pixels,
        "expert": torch.zeros(rows, k, dtype=torch.int64),
        "weight": torch.ones(rows, k),
        "lora_a": [torch.zeros(experts, rank, layer.in_features) for layer in layers],
        "lora_b": [torch.zeros(experts, rank, layer.out_features) for layer in layers],
    }
    dyn = torch.export.Dim.DYNAMIC
    bank = [{0: dyn, 1: dyn} for _ in layers]
    both = {0: dyn, 1: dyn}
    shapes = {
        "pixels": {0: dyn},
        "expert": both,
        "weight": both,
        "lora_a": bank,
        "lora_b": bank,
    }
    names = [f"lora_{side}.{target}" for side in "ab" for target in tower.targets]
    module: nn.Module = tower
    if not layers:
        module, example, shapes = tower.pictures, {"pixels": pixels}, {"pixels": {0: dyn}}
    export_onnx(
        module,
        example,
        path,
        shapes=shapes,
        inputs=["pixels", "expert", "weight", *names] if layers else ["pixels"],
        outputs=list(OUTPUTS),
        opset=OPSET,
        what="vision tower",
    )
