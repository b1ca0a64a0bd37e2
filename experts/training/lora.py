"""LoRA adapters on the layers above the gate, in PEFT's own format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from peft import set_peft_model_state_dict as load_state
from peft.tuners.lora import LoraLayer
from safetensors.torch import load_file, save_file
from torch import Tensor

from ...errors import PackError
from .tower import TorchTower

WEIGHTS = "adapter_model.safetensors"
_ADAPTER = "default"


@dataclass(frozen=True)
class LoraSettings:
    """Shape of an adapter.

    Attributes:
        targets: dotted paths of the linear layers that carry it.
        rank: width of the low-rank update.
        alpha: the update is multiplied by ``alpha / rank``.
    """

    targets: tuple[str, ...]
    rank: int = 16
    alpha: int = 32

    @classmethod
    def read(cls, folder: Path) -> LoraSettings:
        """Read the shape of a saved adapter.

        Args:
            folder: as :meth:`Adapter.save` writes it.

        Returns:
            Its settings.
        """
        config = LoraConfig.from_pretrained(str(folder))
        return cls(tuple(sorted(config.target_modules)), config.r, config.lora_alpha)


class Adapter:
    """A trainable adapter on a tower. The tower carries it from here on.

    Args:
        tower: the frozen base.
        settings: shape of the adapter.
        seed: of the initial weights.
        start: folder of an adapter of the same shape to begin with.
    """

    def __init__(
        self, tower: TorchTower, settings: LoraSettings, *, seed: int = 0, start: Path | None = None
    ) -> None:
        config = LoraConfig(
            r=settings.rank,
            lora_alpha=settings.alpha,
            target_modules=list(settings.targets),
            lora_dropout=0.0,
            bias="none",
            inference_mode=False,
        )
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.model = cast("PeftModel", get_peft_model(cast("Any", tower.model), config))
        self.model.eval()  # no dropout: neither the base nor the adapter has any in training
        self._strength = settings.alpha / settings.rank
        if start is not None:
            self.load(start)

    def parameters(self) -> list[torch.nn.Parameter]:
        """The trainable weights."""
        return [value for value in self.model.parameters() if value.requires_grad]

    def scale(self, factor: float) -> None:
        """Set the strength of the adapter; 1 is full, 0 the bare base.

        Args:
            factor: share of the trained update.
        """
        for module in self.model.modules():
            if isinstance(module, LoraLayer):
                module.scaling[_ADAPTER] = self._strength * factor

    def state(self) -> dict[str, Tensor]:
        """Copy the weights, under PEFT's names."""
        state = get_peft_model_state_dict(self.model)
        return {name: value.detach().clone() for name, value in state.items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Replace the weights.

        Args:
            state: tensors as :meth:`state` gives them, of any float type.

        Raises:
            PackError: when a tensor is missing or of another shape.
        """
        own = self.state()
        shapes = {name: tuple(value.shape) for name, value in own.items()}
        if shapes != {name: tuple(value.shape) for name, value in state.items()}:
            raise PackError("the adapter to start from has other layers or another rank")
        load_state(self.model, {name: value.float() for name, value in state.items()})

    def load(self, folder: Path) -> None:
        """Replace the weights by those of a saved adapter of the same shape.

        Args:
            folder: as :meth:`save` writes it.
        """
        self.load_state(load_file(folder / WEIGHTS))

    def remove(self, tower: TorchTower) -> None:
        """Take the adapter off its tower.

        Args:
            tower: the one it was made on.
        """
        cast("Any", self.model.unload()).requires_grad_(False)
        if any(isinstance(module, LoraLayer) for module in tower.modules()):
            raise RuntimeError("the adapter is still on its tower")

    def save(self, folder: Path) -> None:
        """Write ``adapter_config.json`` and ``adapter_model.safetensors``, in half precision.

        Args:
            folder: made when missing.
        """
        self.model.save_pretrained(str(folder), safe_serialization=True)
        (folder / "README.md").unlink(missing_ok=True)
        half = {name: value.half().contiguous() for name, value in self.state().items()}
        save_file(half, folder / WEIGHTS, metadata={"format": "pt"})


def average(states: Sequence[Mapping[str, Tensor]], rank: int) -> dict[str, Tensor]:
    """Average adapters of the same layers, as updates of the weights they adapt.

    The mean of runs that differ in their seed alone is steadier than any one of them (model soups,
    arXiv 2203.05482). Factors cannot be averaged one by one, so the mean of the products is
    factored again, by its leading singular vectors.

    Args:
        states: at least one, as :meth:`Adapter.state` gives them.
        rank: of the result.

    Returns:
        float32 weights of one adapter, under the same names.
    """
    merged: dict[str, Tensor] = {}
    for name in states[0]:
        if ".lora_A." not in name:
            continue
        other = name.replace(".lora_A.", ".lora_B.")
        down = torch.cat([state[name].float() for state in states])
        up = torch.cat([state[other].float() for state in states], dim=1) / len(states)
        # The singular vectors of up @ down, without forming that large product.
        left, inner_left = torch.linalg.qr(up)
        right, inner_right = torch.linalg.qr(down.T)
        u, values, v = torch.linalg.svd(inner_left @ inner_right.T)
        root = values[:rank].sqrt()
        merged[other] = (left @ u[:, :rank] * root).contiguous()
        merged[name] = (root[:, None] * (v[:rank] @ right.T)).contiguous()
    return merged


def upper_targets(names: Sequence[str], lower_layers: int) -> tuple[str, ...]:
    """Keep the linear layers above the gate.

    Args:
        names: dotted paths, in which the first number is that of the layer.
        lower_layers: number of layers below the gate.

    Returns:
        The paths whose layer number is at least ``lower_layers``.
    """
    return tuple(name for name in names if _layer(name) >= lower_layers)


def _layer(name: str) -> int:
    return next((int(part) for part in name.split(".") if part.isdigit()), -1)
