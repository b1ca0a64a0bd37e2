"""Gradio's import, at half its time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_STUB_WRITER = "gradio.component_meta"


def import_gradio() -> None:
    """Import Gradio without the stubs that it writes.

    At every import Gradio parses the source of each component and renews a ``.pyi`` file beside
    it. That took 1.1 of 2.2 seconds, and a program should not write into its own installation.
    """
    finder = _WithoutStubs()
    sys.meta_path.insert(0, finder)
    try:
        import gradio  # noqa: F401
    finally:
        sys.meta_path.remove(finder)


class _WithoutStubs(MetaPathFinder):
    """Finds the module that writes stubs, and takes that function from it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path) if fullname == _STUB_WRITER else None
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_silence(module: ModuleType) -> None:
            load(module)
            module.__dict__["create_or_modify_pyi"] = lambda *_: None

        spec.loader.exec_module = load_and_silence  # type: ignore[method-assign]
        return spec
