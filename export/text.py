"""BERT-family text encoders as one routed ONNX graph (DESIGN section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from .adapters import AdapterChoice, attach_bank
from .gate import GateInputs, choose, gate_scores

OPSET = 20
OUTPUTS = ("vector", "chosen", "chosen_weight", "gate_scores", "gate_confidence", "gate_state")
"""Names of the graph's outputs, none of which clashes with an inner value."""

_LINEARS = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)


def bert_targets(layers: Sequence[int]) -> list[str]:
    """Module paths of every linear layer in the given BERT layers.

    Args:
        layers: layer indices, counted from 0.

    Returns:
        Dotted paths, in the order of the bank.
    """
    return [f"encoder.layer.{layer}.{linear}" for layer in layers for linear in _LINEARS]


class RoutedBert(nn.Module):
    """A BERT encoder that picks its own adapter half-way up.

    Args:
        bert: a ``transformers`` ``BertModel`` with eager attention.
        gate_layer: number of layers below the gate; adapters live above it.
        targets: linear layers that carry adapters.
    """

    def __init__(self, bert: nn.Module, gate_layer: int, targets: Sequence[str]) -> None:
        super().__init__()
        self.bert = bert
        self.gate_layer = gate_layer
        self.targets = tuple(targets)
        self._choice = AdapterChoice()
        attach_bank(bert, targets, self._choice)

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
            input_ids: int64 (n, t), starting with [CLS].
            attention_mask: int64 (n, t).
            prefix: float32 (n, p, d), word embeddings placed after [CLS]; p may be 0.
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
        bert = cast("Any", self.bert)
        words = bert.embeddings.word_embeddings(input_ids)
        words = torch.cat([words[:, :1], prefix, words[:, 1:]], dim=1)
        ones = torch.ones(prefix.shape[0], prefix.shape[1], dtype=attention_mask.dtype)
        mask = torch.cat([attention_mask[:, :1], ones, attention_mask[:, 1:]], dim=1).float()
        positions = bert.embeddings.position_embeddings.weight[: words.shape[1]]
        kind = bert.embeddings.token_type_embeddings.weight[0]
        hidden = bert.embeddings.LayerNorm(words + positions + kind)
        blocked = ((1.0 - mask) * -1e9)[:, None, None, :]

        layers = list(bert.encoder.layer)
        for layer in layers[: self.gate_layer]:
            hidden = layer(hidden, blocked)
        state = _pool(hidden, mask)
        gate = GateInputs(pilots, pilot_owners, gate_center, gate_experts, gate_settings)
        scores = gate_scores(state, gate)
        gated, gated_weight, confidence = choose(scores, gate, expert.shape[1])
        free = expert < 0
        chosen = torch.where(free, gated, expert)
        strength = weight * torch.where(free, gated_weight, 1.0)
        self._choice.set(chosen, strength, self.targets, lora_a, lora_b)
        for layer in layers[self.gate_layer :]:
            hidden = layer(hidden, blocked)
        return _pool(hidden, mask), chosen, strength, scores, confidence, state


def _pool(hidden: Tensor, mask: Tensor) -> Tensor:
    """Mean over real tokens, then unit norm.

    A matrix product, because ONNX Runtime's ReduceSum adds in another order for a batch of one,
    and one of two equal rows, because its kernel for a single row adds in another order when the
    length is odd. Both would make a vector depend on its batch.
    """
    share = mask / mask.sum(dim=1, keepdim=True).clamp(min=1.0)
    twice = share.unsqueeze(1).expand(-1, 2, -1)
    return normalize(torch.matmul(twice, hidden)[:, 0], dim=-1)


def export_text(tower: RoutedBert, path: Path, *, dim: int) -> list[str]:
    """Export a routed tower in fp32.

    Args:
        tower: the tower, in eval mode.
        path: where to write the ONNX file.
        dim: width of the hidden states.

    Returns:
        The graph's input names, in order.
    """
    rows, tokens, prefix, k, experts, pilots, rank = 3, 7, 2, 2, 4, 5, 6
    widths = [_widths(tower.bert.get_submodule(target)) for target in tower.targets]
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
    torch.onnx.export(
        tower,
        kwargs=example,
        f=str(path),
        input_names=names,
        output_names=list(OUTPUTS),
        dynamic_shapes=shapes,
        opset_version=OPSET,
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    return names


def _widths(layer: nn.Module) -> tuple[int, int]:
    base = cast("nn.Linear", layer.base)
    return base.in_features, base.out_features
