"""Naming the module that an export stops at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ExportError

_MAX_REASON = 300


@contextmanager
def naming_modules(root: nn.Module, what: str, *, finite: bool = False) -> Iterator[None]:
    """Turn a failure inside a module's forward into an error that names the module.

    Args:
        root: the model that is run.
        what: the tower, for the message.
        finite: also stop at the first module whose output is not finite.

    Raises:
        ExportError: naming the innermost module that failed.
    """
    running: list[tuple[str, nn.Module]] = []
    handles = []

    def enter(name: str, module: nn.Module) -> None:
        running.append((name, module))

    def leave(output: object) -> None:
        name, module = running.pop()
        if finite and isinstance(output, Tensor) and not bool(torch.isfinite(output).all()):
            raise _NotFiniteError(name, module)

    for name, module in root.named_modules():
        handles.append(
            module.register_forward_pre_hook(lambda module, _, name=name: enter(name, module))
        )
        handles.append(module.register_forward_hook(lambda _m, _i, output: leave(output)))
    try:
        yield
    except ExportError:
        raise
    except _NotFiniteError as error:
        raise ExportError(
            f"{what}: module {error.name} ({type(error.module).__name__}) gives NaN or infinite "
            "values; its weights are broken"
        ) from error
    except Exception as error:
        name, module = running[-1] if running else ("", root)
        raise ExportError(
            f"{what}: module {name or 'itself'} ({type(module).__name__}) cannot be exported: "
            f"{_short(error)}"
        ) from error
    finally:
        for handle in handles:
            handle.remove()


class _NotFiniteError(Exception):
    def __init__(self, name: str, module: nn.Module) -> None:
        super().__init__(name)
        self.name = name
        self.module = module


def export_onnx(
    module: nn.Module,
    kwargs: Mapping[str, Any],
    path: Path,
    *,
    shapes: Mapping[str, Any],
    inputs: list[str],
    outputs: list[str],
    opset: int,
    what: str,
) -> None:
    """Trace a module and write it as ONNX, fp32.

    Args:
        module: in eval mode.
        kwargs: example inputs.
        path: where to write; large weights go to a file beside it.
        shapes: dynamic shapes, by input.
        inputs: names of the graph's inputs.
        outputs: names of its outputs.
        opset: of the graph.
        what: the tower, for messages.

    Raises:
        ExportError: naming the module that cannot be traced or translated.
    """
    with naming_modules(module, what), torch.no_grad():
        program = torch.export.export(
            module, (), kwargs=dict(kwargs), dynamic_shapes=dict(shapes), strict=False
        )
    try:
        torch.onnx.export(
            program,
            f=str(path),
            input_names=inputs,
            output_names=outputs,
            opset_version=opset,
            dynamo=True,
            external_data=True,
            verbose=False,
        )
    except Exception as error:
        raise ExportError(
            f"{what}: module {_untranslated(program, error)} cannot be exported: {_short(error)}"
        ) from error


def _untranslated(program: Any, error: BaseException) -> str:
    """Find the module of the operator that an error speaks of."""
    text = ""
    cause: BaseException | None = error
    while cause is not None:
        text += str(cause)
        cause = cause.__cause__
    for node in program.graph.nodes:
        spoken = node.op == "call_function" and re.search(
            rf"\b{re.escape(str(node.target))}\b|%{re.escape(node.name)}\b", text
        )
        stack = node.meta.get("nn_module_stack") if spoken else None
        if stack:
            name, kind = list(stack.values())[-1]
            return f"{name or 'itself'} ({str(kind).rpartition('.')[2]}, operator {node.target})"
    return "unknown"


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:_MAX_REASON] + ("…" if len(text) > _MAX_REASON else "")
