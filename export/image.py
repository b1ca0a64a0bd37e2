"""The vision tower: a frozen trunk and a small head that is retrained more often."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from ..experts.training.vision.head import ImageHead
from ..experts.training.vision.towers import Trunk
from .onnx_io import strip_debug_info
from .text import OPSET

_HALF_FROM = 16_384
"""Smaller weights stay fp32: depthwise kernels and biases are tiny and the most sensitive."""


class LiftedHead(nn.Module):
    """An image head with the common direction of captions added to its vectors.

    Args:
        head: from training, or fresh, which is the training-free projection (ConSE,
            arXiv 1312.5650).
    """

    def __init__(self, head: ImageHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, features: Tensor, logits: Tensor) -> Tensor:
        """Project into the text space.

        Args:
            features: float32 (n, features).
            logits: float32 (n, classes).

        Returns:
            float32 (n, dim), unit norm.
        """
        return self.head.lifted(self.head(features, logits))


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
    strip_debug_info(model)
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
    model = onnx.load(path)
    store_half(model)
    strip_debug_info(model)
    onnx.save(model, path)


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
