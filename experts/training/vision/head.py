"""The trained image head: trunk outputs to a vector in the space of the text tower."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from safetensors.torch import load_file
from torch import Tensor, nn

from .classes import ClassAnchor, remove_direction
from .towers import CLASSES, FEATURES, TEXT_DIM

LAST_FEATURES = 1280

_EXPORTED = "head."
"""What the names of the weights begin with in an exported head."""


@dataclass(frozen=True)
class HeadConfig:
    """Shape of an image head.

    Attributes:
        hidden: Width of the hidden layer of a member.
        members: Number of projections whose unit vectors are averaged.
        dropout: Dropout of the hidden layer.
        input_dropout: Dropout of the features.
        lift: Component along the mean direction of captions that every vector is given.
    """

    hidden: int = 1024
    members: int = 1
    dropout: float = 0.5
    input_dropout: float = 0.2
    lift: float = 0.5


class Projection(nn.Module):
    """One hidden layer from features to a correction of the class-name vector.

    Args:
        config: Shape of the head.
    """

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        # The last layer and the pooled blocks differ in scale: each has its own norm.
        self.last_norm = nn.LayerNorm(LAST_FEATURES)
        self.pooled_norm = nn.LayerNorm(FEATURES - LAST_FEATURES)
        self.input_dropout = nn.Dropout(config.input_dropout)
        self.inner = nn.Linear(FEATURES, config.hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.outer = nn.Linear(config.hidden, TEXT_DIM)
        # Training starts from the class-name vector alone.
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Compute the correction.

        Args:
            features: float [n, 1744].

        Returns:
            float [n, 384].
        """
        last = self.last_norm(features[:, :LAST_FEATURES])
        pooled = self.pooled_norm(features[:, LAST_FEATURES:])
        hidden = self.inner(self.input_dropout(torch.cat([last, pooled], 1)))
        return self.outer(self.dropout(nn.functional.gelu(hidden)))


class ImageHead(nn.Module):
    """Class-name vector plus trained correction, averaged over members.

    Args:
        config: Shape of the head.
        names: Unit vectors of the class names, [1000, 384]; zeros when weights are loaded
            afterwards.
    """

    def __init__(self, config: HeadConfig, names: Tensor | None = None) -> None:
        super().__init__()
        self.config = config
        self.anchor = ClassAnchor(torch.zeros(CLASSES, TEXT_DIM) if names is None else names)
        self.members = nn.ModuleList(Projection(config) for _ in range(config.members))

    def forward(self, features: Tensor, logits: Tensor) -> Tensor:
        """Embed images without the common direction.

        Args:
            features: float [n, 1744].
            logits: float [n, 1000].

        Returns:
            Unit vectors [n, 384], orthogonal to the mean direction of captions.
        """
        start = self.anchor(logits)
        total = torch.zeros_like(start)
        for member in self.members:
            moved = remove_direction(start + member(features), self.anchor.direction)
            total = total + nn.functional.normalize(moved, dim=-1)
        return nn.functional.normalize(total, dim=-1)

    def lifted(self, vectors: Tensor) -> Tensor:
        """Add the common direction, which changes no ranking among images.

        Without it every image scores below every text for a caption-like query, because
        texts share that direction and images do not.

        Args:
            vectors: Unit vectors [n, 384] from `forward`.

        Returns:
            Unit vectors [n, 384].
        """
        moved = vectors + self.config.lift * self.anchor.direction
        return nn.functional.normalize(moved, dim=-1)


def load_head(path: Path) -> ImageHead:
    """Load a trained image head.

    Args:
        path: ``image_head.safetensors`` of a training run, or ``image_head.onnx`` of a model
            directory, exported from a trained head.

    Returns:
        The head in evaluation mode.
    """
    weights = _exported(path) if path.suffix == ".onnx" else load_file(path)
    hidden = weights["members.0.inner.weight"].shape[0]
    members = len({name.split(".")[1] for name in weights if name.startswith("members.")})
    head = ImageHead(HeadConfig(hidden=hidden, members=members))
    head.load_state_dict(weights)
    head.eval()
    return head


def _exported(path: Path) -> dict[str, Tensor]:
    """Read the weights back that an export stored, large ones in half precision."""
    found = {}
    for item in onnx.load(path).graph.initializer:
        if item.name.startswith(_EXPORTED):
            name = item.name.removeprefix(_EXPORTED).removesuffix(".half")
            found[name] = torch.from_numpy(numpy_helper.to_array(item).astype(np.float32))
    return found
