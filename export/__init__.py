"""From torch models to ONNX model directories. Needs the ``train`` extra."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .model import ExportConfig, export_model, export_source
    from .verify import verify_model

__all__ = ["ExportConfig", "export_model", "export_source", "verify_model"]


def __getattr__(name: str) -> Any:
    # torch is imported by who exports, not by who imports the package.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "verify_model":
        from .verify import verify_model

        return verify_model
    from ..errors import MissingExtraError

    try:
        from . import model
    except ModuleNotFoundError as error:
        raise MissingExtraError("exporting a model", "train") from error
    return getattr(model, name)
