"""LoRA adapters as graph inputs: one linear layer, a bank of adapters, a choice per row."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class AdapterChoice:
    """Which bank rows serve each batch row in the pass now being traced.

    A plain holder rather than a module: the layers below the gate never look at it, the layers
    above read what the gate (or the caller) chose.
    """

    def __init__(self) -> None:
        self.expert: Tensor | None = None
        self.weight: Tensor | None = None
        self.bank: dict[str, tuple[Tensor, Tensor]] = {}

    def set(
        self,
        expert: Tensor,
        weight: Tensor,
        names: Sequence[str],
        bank_a: Sequence[Tensor],
        bank_b: Sequence[Tensor],
    ) -> None:
        """Select adapters for the coming layers.

        Args:
            expert: int64 (n, k), bank rows.
            weight: float32 (n, k), the strength of each.
            names: the target layers, in the bank's order.
            bank_a: a layer each, float32 (experts, rank, d_in).
            bank_b: a layer each, float32 (experts, rank, d_out).
        """
        self.expert, self.weight = expert, weight
        self.bank = dict(zip(names, zip(bank_a, bank_b, strict=True), strict=True))


class BankLinear(nn.Module):
    """A frozen linear layer plus the low-rank update that the choice selects for each row.

    The k adapters of a row are laid side by side along the rank axis, so that a mix of
    adapters costs the same two matrix products as one of k times the rank.
    """

    def __init__(self, base: nn.Linear, name: str, choice: AdapterChoice) -> None:
        super().__init__()
        self.base = base
        self.name = name
        self._choice = choice

    def forward(self, hidden: Tensor) -> Tensor:
        """Apply the layer.

        Args:
            hidden: float32 (n, tokens, d_in).

        Returns:
            float32 (n, tokens, d_out).
        """
        expert, weight = self._choice.expert, self._choice.weight
        bank_a, bank_b = self._choice.bank[self.name]
        assert expert is not None
        assert weight is not None
        rank = bank_a.shape[1]
        rows, k = expert.shape
        index = expert.reshape(-1)
        a = torch.index_select(bank_a, 0, index).reshape(rows, k * rank, bank_a.shape[2])
        b = torch.index_select(bank_b, 0, index).reshape(rows, k * rank, bank_b.shape[2])
        strength = weight.reshape(rows, k, 1).expand(rows, k, rank).reshape(rows, 1, k * rank)
        return self.base(hidden) + torch.matmul(
            torch.matmul(hidden, a.transpose(1, 2)) * strength, b
        )


def attach_bank(model: nn.Module, targets: Sequence[str], choice: AdapterChoice) -> None:
    """Replace the named linear layers of a model by :class:`BankLinear`, in place.

    Args:
        model: the backbone.
        targets: dotted module paths.
        choice: the holder that the replaced layers read.

    Raises:
        TypeError: when a target is not a linear layer.
    """
    for path in targets:
        parent_path, _, leaf = path.rpartition(".")
        parent = model.get_submodule(parent_path)
        layer = getattr(parent, leaf)
        if not isinstance(layer, nn.Linear):
            raise TypeError(f"LoRA target {path} is {type(layer).__name__}, not a linear layer")
        setattr(parent, leaf, BankLinear(layer, path, choice))
