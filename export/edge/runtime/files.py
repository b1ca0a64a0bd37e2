"""The files of a bundle: ``bundle.json``, the steering arrays, ONNX sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .routes import EdgeError

Floats = NDArray[np.float32]

_FORMAT = 1
_TYPES = {"F16": "<f2", "F32": "<f4", "I64": "<i8"}


def read_description(folder: Path) -> dict[str, Any]:
    """Read ``bundle.json`` and check that every file is there, whole.

    Args:
        folder: of the bundle.

    Returns:
        Its content.

    Raises:
        EdgeError: when the folder is no bundle, or a file is missing or cut short.
    """
    try:
        content: dict[str, Any] = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EdgeError(f"{folder} is no bundle: {error}") from error
    if content.get("format") != _FORMAT:
        raise EdgeError(f"{folder} has format {content.get('format')!r}, not {_FORMAT}")
    for name, size in content["files"].items():
        file = folder / name
        if not file.is_file() or file.stat().st_size != size:
            raise EdgeError(f"{file} should have {size} bytes; copy the bundle again, whole")
    return content


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Read a safetensors file; half-precision arrays come back in single precision.

    Args:
        path: the file.

    Returns:
        Arrays by name.
    """
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header: dict[str, Any] = json.loads(data[8:start])
    header.pop("__metadata__", None)
    tensors: dict[str, NDArray[Any]] = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = np.frombuffer(data[start + begin : start + end], _TYPES[entry["dtype"]])
        array = array.reshape(entry["shape"])
        tensors[name] = array.astype(np.float32) if entry["dtype"] == "F16" else array
    return tensors


def open_session(path: Path, threads: int) -> Any:
    """Open a model file.

    Args:
        path: an ONNX file.
        threads: processor threads of one call.

    Returns:
        An ``onnxruntime.InferenceSession``, which several threads may call.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
