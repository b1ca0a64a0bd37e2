"""Writing ONNX files so that frozen weights lie in a file of their own."""

from __future__ import annotations

from pathlib import Path

import onnx

_INLINE_BELOW = 1024


def strip_debug_info(model: onnx.ModelProto) -> None:
    """Remove what the exporter notes for debugging: stack traces with paths of this machine.

    Args:
        model: changed in place.
    """
    graph = model.graph
    for node in graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.doc_string = ""
        del value.metadata_props[:]
    # Shapes inferred for the fp32 graph no longer hold after rewriting.
    del graph.value_info[:]
    del graph.metadata_props[:], model.metadata_props[:]
    graph.doc_string = model.doc_string = ""


def save_split(model: onnx.ModelProto, path: Path) -> None:
    """Write ``path`` and, beside it, ``path.data`` with all large tensors.

    A change of the graph then leaves the weights' file, and its digest, as they were.

    Args:
        model: the model; its tensors are moved out of it.
        path: where to write the graph.
    """
    data = path.with_name(path.name + ".data")
    data.unlink(missing_ok=True)
    onnx.save(
        model,
        path,
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location=data.name,
        size_threshold=_INLINE_BELOW,
    )
    # onnx creates it readable by its owner alone.
    data.chmod(path.stat().st_mode)
