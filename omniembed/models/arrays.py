"""The arrays that steer the routed text graph: adapter bank and gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .manifest import LoraTarget

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class AdapterBank:
    """Adapters of all experts, stacked; row 0 is the base and holds zeros.

    Attributes:
        names: expert of every row; ``names[0]`` is ``"base"``.
        a: by layer name, float32 (experts, rank, d_in).
        b: by layer name, float32 (experts, rank, d_out), with PEFT's scaling folded in.
    """

    names: tuple[str, ...]
    a: Mapping[str, Floats]
    b: Mapping[str, Floats]

    @classmethod
    def base_only(cls, targets: Sequence[LoraTarget]) -> AdapterBank:
        """Make a bank without experts.

        Its rank is 0, so that the adapters' products vanish from the pass.

        Args:
            targets: the layers that could carry adapters.

        Returns:
            The bank.
        """
        return cls(
            ("base",),
            {target.name: np.zeros((1, 0, target.d_in), np.float32) for target in targets},
            {target.name: np.zeros((1, 0, target.d_out), np.float32) for target in targets},
        )

    def feeds(self, targets: Sequence[LoraTarget]) -> dict[str, Floats]:
        """Name the arrays of a tower as its graph does.

        Args:
            targets: the layers of the tower.

        Returns:
            Graph inputs.
        """
        return {
            **{f"lora_a.{target.name}": self.a[target.name] for target in targets},
            **{f"lora_b.{target.name}": self.b[target.name] for target in targets},
        }


@dataclass(frozen=True)
class GateArrays:
    """The gate's inputs; ``omniembed.router`` says what they mean.

    Attributes:
        pilots: float32 (m, gate_dim).
        owners: int64 (m,), bank rows.
        center: float32 (gate_dim,).
        experts: float32 (experts, 3): slope and offset of the confidence, adapter strength.
        settings: float32 (3,): pooling temperature, abstention threshold, ramp width.
    """

    pilots: Floats
    owners: NDArray[np.int64]
    center: Floats
    experts: Floats
    settings: Floats

    @classmethod
    def closed(cls, gate_dim: int, experts: int = 1) -> GateArrays:
        """Make a gate that always keeps to the base.

        Args:
            gate_dim: width of the gate's state.
            experts: rows of the bank.

        Returns:
            The arrays.
        """
        return cls(
            np.zeros((1, gate_dim), np.float32),
            np.zeros(1, np.int64),
            np.zeros(gate_dim, np.float32),
            np.tile(np.array([0.0, -1e4, 1.0], np.float32), (experts, 1)),
            np.array([1.0, 0.5, 1e-6], np.float32),
        )

    def feeds(self) -> dict[str, NDArray[np.float32] | NDArray[np.int64]]:
        """Name the arrays as the graph does.

        Returns:
            Graph inputs.
        """
        return {
            "pilots": self.pilots,
            "pilot_owners": self.owners,
            "gate_center": self.center,
            "gate_experts": self.experts,
            "gate_settings": self.settings,
        }
