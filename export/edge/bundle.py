"""Building a bundle: choose experts, check the precision, copy, pack, add the runtime."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ...embedder import Embedder
from ...errors import ExportError, UnknownExpertError
from ...experts import ExpertPack, ExpertRegistry
from ...experts.registry import LoadedExperts, stack
from ...models.manifest import Manifest
from ...models.model import Model
from ...router import read_settings
from ...store import Store
from . import description, javascript, python, vectors
from .steering import write_steering

BASE_ONLY = "none"
ALL = "all"

_PRECISIONS = {"int8": b"MatMulIntegerToFloat", "block": b"MatMulNBits"}
_FLOAT = "float"
_VISION = ("image.onnx", "image_head.onnx")
_LEAST_SAVING = 0.95


class Target(str, Enum):
    """Where a bundle runs."""

    PYTHON = "python"
    NODE = "node"
    WEB = "web"


@dataclass(frozen=True)
class BundleReport:
    """What a bundle weighs.

    Attributes:
        folder: where it lies.
        experts: those in it.
        precision: of its text graph.
        documents: in its index; 0 for a bundle without one.
        sizes: bytes by file, relative to the folder.
    """

    folder: Path
    experts: tuple[str, ...]
    precision: str
    documents: int
    sizes: Mapping[str, int]

    @property
    def total(self) -> int:
        """Bytes in all."""
        return sum(self.sizes.values())


def export_edge(
    embedder: Embedder,
    out: Path,
    *,
    target: Target = Target.PYTHON,
    experts: Sequence[str] = (ALL,),
    precision: str | None = None,
    images: bool = True,
    store: Store | None = None,
    root: Path | None = None,
) -> BundleReport:
    """Write a bundle.

    Args:
        embedder: the model and the experts it serves.
        out: folder to write; it may hold an earlier bundle, which is replaced.
        target: where the bundle runs.
        experts: names, ``("all",)`` or ``("none",)``.
        precision: that the model must have, ``"int8"``, ``"block"`` or ``"float"``; as it is when
            omitted.
        images: take the vision tower along.
        store: whose documents and vectors to take along.
        root: folder that file names of its documents are written relative to.

    Returns:
        What was written.

    Raises:
        ExportError: when the folder holds something else, the model has another precision, or the
            JavaScript part cannot be built.
        UnknownExpertError: when an expert is not loaded.
    """
    model, manifest = embedder.model, embedder.model.manifest
    found = _check_precision(model, precision)
    chosen = choose(embedder.experts, manifest, experts)
    _check_out(out)
    images = images and manifest.image is not None
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".bundle-") as scratch:
        folder = Path(scratch) / "bundle"
        folder.mkdir()
        settings = read_settings(model.directory, manifest.gate_dim)
        content = description.describe(
            model.directory, manifest, chosen, settings, images=images, precision=found
        )
        for name in manifest.files:
            if images or not name.startswith(_VISION):
                shutil.copyfile(model.directory / name, folder / name)
        write_steering(folder, chosen, settings)
        content["files"] = _list_files(folder)
        content["compressed"] = [] if target is Target.PYTHON else _compress(folder)
        count = vectors.export_store(store, folder / vectors.FOLDER, root=root) if store else 0
        content["documents"] = count
        description.write(folder, content)
        if target is Target.PYTHON:
            python.add_runtime(folder)
        else:
            javascript.add_runtime(folder, page=target is Target.WEB)
        folder.chmod(0o755)
        shutil.rmtree(out, ignore_errors=True)
        folder.replace(out)
    sizes = {
        file.relative_to(out).as_posix(): file.stat().st_size
        for file in sorted(out.rglob("*"))
        if file.is_file()
    }
    return BundleReport(out, chosen.bank.names[1:], found, count, sizes)


def choose(registry: ExpertRegistry, manifest: Manifest, names: Sequence[str]) -> LoadedExperts:
    """Select experts in the registry's order.

    Args:
        registry: the loaded experts.
        manifest: of the base.
        names: of experts, ``("all",)`` or ``("none",)``.

    Returns:
        A state with those experts only.

    Raises:
        UnknownExpertError: when one is not loaded.
    """
    state = registry.state
    if list(names) == [ALL]:
        return state
    wanted = [] if list(names) == [BASE_ONLY] else list(names)
    for name in wanted:
        if name not in state.packs:
            raise UnknownExpertError(name, state.packs)
    kept: list[ExpertPack] = [pack for name, pack in state.packs.items() if name in wanted]
    return stack(kept, manifest.lora)


def _check_precision(model: Model, wanted: str | None) -> str:
    # Names of operators stand in the file as they are, so that no ONNX parser is needed here.
    graph = (model.directory / "text.onnx").read_bytes()
    found = next((name for name, mark in _PRECISIONS.items() if mark in graph), _FLOAT)
    if wanted is not None and wanted != found:
        raise ExportError(
            f"the text graph of model {model.manifest.name!r} is {found}, not {wanted}; "
            f"give --precision {found}, or --model with a model directory of that precision"
        )
    return found


def _check_out(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise ExportError(f"{out} is a file; name a folder")
    if out.is_dir() and any(out.iterdir()) and not (out / description.FILE_NAME).is_file():
        raise ExportError(f"{out} holds something that is no bundle; name a new folder")


def _list_files(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in sorted(folder.iterdir())}


def _compress(folder: Path) -> list[str]:
    """Replace files by ``.gz`` where it pays: static servers rarely compress, browsers unpack."""
    compressed = []
    for file in sorted(folder.iterdir()):
        data = file.read_bytes()
        packed = gzip.compress(data, 9, mtime=0)
        if len(packed) < _LEAST_SAVING * len(data):
            file.with_name(f"{file.name}.gz").write_bytes(packed)
            file.unlink()
            compressed.append(file.name)
    return compressed
