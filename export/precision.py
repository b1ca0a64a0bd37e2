"""How the weights of an exported graph are stored and multiplied."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
import onnx
from numpy.typing import NDArray

from ..errors import ExportError
from .image import store_half
from .int8 import RowwiseQuantiser, store_table

PRECISIONS = ("fp32", "fp16", "int8", "block8", "block4")
"""fp32; fp16 storage, fp32 arithmetic; row-wise dynamic int8; 8 and 4 bit weights in blocks."""

DEFAULT = "int8"
_BLOCK = 32


def check_precision(precision: str) -> None:
    """Refuse what is no precision.

    Args:
        precision: of :data:`PRECISIONS`.

    Raises:
        ExportError: for any other.
    """
    if precision not in PRECISIONS:
        raise ExportError(f"precision {precision!r} is not one of {', '.join(PRECISIONS)}")


def apply_precision(
    model: onnx.ModelProto, precision: str, peaks: Mapping[str, NDArray[np.float32]]
) -> onnx.ModelProto:
    """Rewrite an fp32 graph.

    Args:
        model: may be changed in place.
        precision: of :data:`PRECISIONS`.
        peaks: of LayerNorm outputs, for int8; see :func:`omniembed.export.int8.norm_peaks`.

    Returns:
        The graph in that precision.
    """
    if precision == "int8":
        RowwiseQuantiser(model, peaks).run()
    elif precision.startswith("block"):
        model = _blocks(model, int(precision.removeprefix("block")))
        store_table(model)
    if precision != "fp32":
        store_half(model)
    return model


def _blocks(model: onnx.ModelProto, bits: int) -> onnx.ModelProto:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    logging.getLogger("onnxruntime.quantization.matmul_nbits_quantizer").setLevel(logging.WARNING)
    # Adapters are inputs, so only the frozen weights are constants.
    quantiser = MatMulNBitsQuantizer(model, bits=bits, block_size=_BLOCK, is_symmetric=True)
    quantiser.process()
    return quantiser.model.model
