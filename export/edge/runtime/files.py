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
_FIELDS: dict[str, type | tuple[type, ...]] = {
    **{"files": dict, "special": dict, "experts": list, "lora": list},
    **{"dim": int, "gate_dim": int, "max_tokens": int},
    **{"image": (dict, type(None)), "gate": (dict, type(None))},
}
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
    except (OSError, ValueError, RecursionError) as error:
        raise EdgeError(f"{folder} is no bundle: {error}") from error
    found = content.get("format") if isinstance(content, dict) else None
    if found != _FORMAT:
        raise EdgeError(f"{folder} has format {found!r}, not {_FORMAT}; export it again")
    lacking = [name for name, kind in _FIELDS.items() if not isinstance(content.get(name), kind)]
    if lacking:
        raise EdgeError(f"bundle.json in {folder} lacks {', '.join(lacking)}; export it again")
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

    Raises:
        EdgeError: when the file is missing or is none.
    """
    try:
        return _parse(path.read_bytes())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EdgeError(f"cannot read {path}: {error}; copy the bundle again, whole") from error


def _parse(data: bytes) -> dict[str, NDArray[Any]]:
    start = 8 + int.from_bytes(data[:8], "little")
    header: dict[str, Any] = json.loads(data[8:start])
    header.pop("__metadata__", None)
    tensors: dict[str, NDArray[Any]] = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if not 0 <= begin <= end <= len(data) - start:
            raise ValueError(f"{name} lies outside the file")
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

    Raises:
        EdgeError: when ONNX Runtime cannot read it.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common class that it documents
        raise EdgeError(f"cannot read {path}: {error}; copy the bundle again, whole") from error
