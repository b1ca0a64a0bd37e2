"""``nn.MultiheadAttention`` with linear layers of its own for query, key and value."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn


class SplitAttention(nn.Module):
    """The same attention, in layers that adapters can be put on.

    PEFT must merge an adapter into a fused projection before each pass, which no bank can do.

    Args:
        fused: what it replaces.
    """

    def __init__(self, fused: nn.MultiheadAttention) -> None:
        super().__init__()
        self.heads = fused.num_heads
        if fused.in_proj_weight is None:
            weights = [fused.q_proj_weight, fused.k_proj_weight, fused.v_proj_weight]
        else:
            weights = list(fused.in_proj_weight.chunk(3))
        bias = fused.in_proj_bias
        biases = [None] * 3 if bias is None else list(bias.chunk(3))
        self.q_proj, self.k_proj, self.v_proj = (
            _linear(weight, one) for weight, one in zip(weights, biases, strict=True)
        )
        self.out_proj = _linear(fused.out_proj.weight, fused.out_proj.bias)
        self.train(fused.training)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
    ) -> tuple[Tensor, None]:
        """Attend.

        Args:
            query: float32 (n, t, width).
            key: float32 (n, s, width).
            value: float32 (n, s, width).
            need_weights: ignored; they are never returned.
            attn_mask: float32, added to the scores (n, heads, t, s).

        Returns:
            float32 (n, t, width), and nothing, as ``nn.MultiheadAttention`` does.
        """
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.q_proj(query), self.k_proj(key), self.v_proj(value))
        )
        scores = torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(-1, -2))
        if attn_mask is not None:
            scores = scores + attn_mask
        mixed = torch.matmul(scores.softmax(dim=-1), v)
        return self.out_proj(mixed.transpose(1, 2).flatten(2)), None


def split_attention(model: nn.Module) -> None:
    """Replace every ``nn.MultiheadAttention`` of a model, in place.

    Args:
        model: such as an open_clip model.

    Raises:
        ValueError: naming a module that cannot be replaced.
    """
    for name, module in list(model.named_modules()):
        if not isinstance(module, nn.MultiheadAttention):
            continue
        if not module.batch_first or module.bias_k is not None or module.add_zero_attn:
            raise ValueError(f"{name} has tokens first, or keys and values of its own")
        parent, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(parent), leaf, SplitAttention(module))


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    layer.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach().clone(), requires_grad=False)
    return cast("nn.Linear", layer)
