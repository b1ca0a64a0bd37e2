"""The vision tower: a frozen trunk and a small head that is retrained more often."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn
from torch.nn.functional import normalize

from .text import OPSET

_HALF_FROM = 16_384
"""Smaller weights stay fp32: depthwise kernels and biases are tiny and the most sensitive."""


class Trunk(nn.Module):
    """EfficientNet-Lite0 from raw pixels, normalisation included.

    Args:
        backbone: a timm EfficientNet.
    """

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Encode pictures.

        Args:
            pixels: uint8 (n, side, side, 3), RGB.

        Returns:
            Pooled features float32 (n, 1280) and ImageNet logits float32 (n, 1000).
        """
        backbone = cast("nn.Module", self.backbone)
        scaled = pixels.permute(0, 3, 1, 2).float() / 127.5 - 1.0
        grid = backbone.forward_features(scaled)  # type: ignore[operator]
        features = backbone.forward_head(grid, pre_logits=True)  # type: ignore[operator]
        return features, backbone.classifier(features)  # type: ignore[operator]


class ClassNameHead(nn.Module):
    """The training-free projection: class posteriors times class-name vectors (ConSE).

    Norouzi et al., "Zero-Shot Learning by Convex Combination of Semantic Embeddings",
    arXiv 1312.5650. The class vectors are centred and freed of their common direction; adding
    that direction back in a fixed share moves all pictures alike, so that it changes no ranking
    among pictures, but lets them compete with text documents.

    Args:
        class_vectors: float32 (classes, dim), unit norm, of the class names in the text space.
        temperature: divides the logits.
        common: weight of the common direction.
    """

    class_vectors: Tensor
    direction: Tensor

    def __init__(
        self, class_vectors: NDArray[np.float32], temperature: float = 2.0, common: float = 0.5
    ) -> None:
        super().__init__()
        vectors = torch.from_numpy(class_vectors)
        direction = normalize(vectors.mean(dim=0), dim=0)
        centred = vectors - vectors.mean(dim=0)
        centred = centred - (centred @ direction).unsqueeze(1) * direction
        self.register_buffer("class_vectors", centred)
        self.register_buffer("direction", common * direction)
        self.temperature = temperature

    def forward(self, features: Tensor, logits: Tensor) -> Tensor:
        """Project into the text space.

        Args:
            features: float32 (n, 1280); a trained head reads them.
            logits: float32 (n, classes).

        Returns:
            float32 (n, dim), unit norm.
        """
        posterior = torch.softmax(logits / self.temperature, dim=-1)
        vector = normalize(posterior @ self.class_vectors, dim=-1) + self.direction
        # Keeps the features an input of the graph, so that a trained head is a drop-in.
        return normalize(vector + 0.0 * features[:, :1], dim=-1)


def export_trunk(trunk: Trunk, path: Path, *, side: int) -> None:
    """Export the trunk with its weights stored in half precision.

    Args:
        trunk: the tower, in eval mode.
        path: where to write.
        side: input side, pixels.
    """
    _export(
        trunk,
        (torch.zeros(2, side, side, 3, dtype=torch.uint8),),
        path,
        inputs=["pixels"],
        outputs=["features", "logits"],
    )
    model = onnx.load(path)
    store_half(model)
    onnx.save(model, path)


def export_head(head: nn.Module, path: Path, *, features: int, classes: int) -> None:
    """Export a head.

    Args:
        head: maps (features, logits) to unit vectors.
        path: where to write.
        features: width of the features.
        classes: number of logits.
    """
    example = (torch.zeros(2, features), torch.zeros(2, classes))
    _export(head, example, path, inputs=["features", "logits"], outputs=["vector"])


def _export(
    module: nn.Module,
    example: tuple[Tensor, ...],
    path: Path,
    *,
    inputs: list[str],
    outputs: list[str],
) -> None:
    batch: Mapping[int, object] = {0: torch.export.Dim.DYNAMIC}
    torch.onnx.export(
        module,
        example,
        str(path),
        input_names=inputs,
        output_names=outputs,
        dynamic_shapes=tuple(batch for _ in example),
        opset_version=OPSET,
        dynamo=True,
        external_data=False,
        verbose=False,
    )


def store_half(model: onnx.ModelProto) -> None:
    """Store large fp32 weights as fp16, cast back when the session is created.

    Args:
        model: changed in place.
    """
    casts = []
    for item in model.graph.initializer:
        if item.data_type != TensorProto.FLOAT or int(np.prod(item.dims)) < _HALF_FROM:
            continue
        name = item.name
        half = numpy_helper.to_array(item).astype(np.float16)
        item.CopyFrom(numpy_helper.from_array(half, f"{name}.half"))
        casts.append(
            helper.make_node("Cast", [f"{name}.half"], [name], f"{name}.cast", to=TensorProto.FLOAT)
        )
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
