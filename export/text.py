"""Text encoders as one routed ONNX graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from ..experts.training.backbones.base import TextBackbone, pool
from .adapters import AdapterChoice, attach_bank
from .gate import GateInputs, choose, gate_scores
from .locate import export_onnx

OPSET = 20
OUTPUTS = ("vector", "chosen", "chosen_weight", "gate_scores", "gate_confidence", "gate_state")
"""Names of the graph's outputs, none of which clashes with an inner value."""


class RoutedText(nn.Module):
    """A text encoder that picks its own adapter half-way up.

    Args:
        backbone: the encoder, taken apart.
        gate_layer: number of layers below the gate; adapters live above it.
        targets: linear layers that carry adapters.
    """

    def __init__(self, backbone: TextBackbone, gate_layer: int, targets: Sequence[str]) -> None:
        super().__init__()
        self.backbone = backbone
        self.gate_layer = gate_layer
        self.targets = tuple(targets)
        self._choice = AdapterChoice()
        attach_bank(backbone.model, targets, self._choice)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        prefix: Tensor,
        expert: Tensor,
        weight: Tensor,
        pilots: Tensor,
        pilot_owners: Tensor,
        gate_center: Tensor,
        gate_experts: Tensor,
        gate_settings: Tensor,
        lora_a: list[Tensor],
        lora_b: list[Tensor],
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Encode a batch.

        Args:
            input_ids: int64 (n, t), starting with a special token.
            attention_mask: int64 (n, t).
            prefix: float32 (n, p, d), word embeddings placed after the first token; p may
                be 0.
            expert: int64 (n, k), bank rows; -1 lets the gate choose.
            weight: float32 (n, k), strength of each; multiplies the gate's own weight.
            pilots: see :class:`GateInputs`, as the other gate arrays.
            pilot_owners: int64 (m,).
            gate_center: float32 (d,).
            gate_experts: float32 (e, 3).
            gate_settings: float32 (3,).
            lora_a: a target each, float32 (e, rank, d_in).
            lora_b: a target each, float32 (e, rank, d_out).

        Returns:
            Tensors in the order of :data:`OUTPUTS`.
        """
        backbone = self.backbone
        words = backbone.words(input_ids)
        words = torch.cat([words[:, :1], prefix, words[:, 1:]], dim=1)
        ones = torch.ones(prefix.shape[0], prefix.shape[1], dtype=attention_mask.dtype)
        joined = torch.cat([attention_mask[:, :1], ones, attention_mask[:, 1:]], dim=1).float()
        hidden, mask = backbone.begin(words, joined)
        context = backbone.context(hidden, mask)

        for index in range(self.gate_layer):
            hidden = backbone.layer(index, hidden, context)
        state = normalize(pool(hidden, mask, "mean")[:, 0], dim=-1)
        gate = GateInputs(pilots, pilot_owners, gate_center, gate_experts, gate_settings)
        scores = gate_scores(state, gate)
        gated, gated_weight, confidence = choose(scores, gate, expert.shape[1])
        free = expert < 0
        chosen = torch.where(free, gated, expert)
        strength = weight * torch.where(free, gated_weight, 1.0)
        self._choice.set(chosen, strength, self.targets, lora_a, lora_b)
        for index in range(self.gate_layer, len(backbone.layers)):
            hidden = backbone.layer(index, hidden, context)
        return backbone.finish(hidden, mask), chosen, strength, scores, confidence, state


def export_text(tower: RoutedText, path: Path) -> list[str]:
    """Export a routed tower in fp32.

    Args:
        tower: the tower, in eval mode.
        path: where to write the ONNX file.

    Returns:
        The graph's input names, in order.
    """
    rows, tokens, prefix, k, experts, pilots, rank = 3, 7, 2, 2, 4, 5, 6
    dim = tower.backbone.width
    widths = [_widths(tower.backbone.model.get_submodule(target)) for target in tower.targets]
    example = {
        "input_ids": torch.ones(rows, tokens, dtype=torch.int64),
        "attention_mask": torch.ones(rows, tokens, dtype=torch.int64),
        "prefix": torch.zeros(rows, prefix, dim),
        "expert": torch.full((rows, k), -1, dtype=torch.int64),
        "weight": torch.ones(rows, k),
        "pilots": torch.randn(pilots, dim),
        "pilot_owners": torch.tensor([0, 1, 2, 3, 1]),
        "gate_center": torch.zeros(dim),
        "gate_experts": torch.ones(experts, 3),
        "gate_settings": torch.tensor([0.1, 0.5, 0.1]),
        "lora_a": [torch.zeros(experts, rank, d_in) for d_in, _ in widths],
        "lora_b": [torch.zeros(experts, rank, d_out) for _, d_out in widths],
    }
    dyn = torch.export.Dim.DYNAMIC
    batch, length = {0: dyn, 1: dyn}, {0: dyn}
    bank = [{0: dyn, 1: dyn} for _ in widths]
    shapes = {
        "input_ids": batch,
        "attention_mask": batch,
        "prefix": batch,
        "expert": batch,
        "weight": batch,
        "pilots": length,
        "pilot_owners": length,
        "gate_center": None,
        "gate_experts": length,
        "gate_settings": None,
        "lora_a": bank,
        "lora_b": bank,
    }
    bank_names = [f"lora_{side}.{target}" for side in "ab" for target in tower.targets]
    names = [*list(example)[:-2], *bank_names]
    export_onnx(
        tower,
        example,
        path,
        shapes=shapes,
        inputs=names,
        outputs=list(OUTPUTS),
        opset=OPSET,
        what="text tower",
    )
    return names


def _widths(layer: nn.Module) -> tuple[int, int]:
    base = cast("nn.Linear", layer.base)
    return base.in_features, base.out_features
