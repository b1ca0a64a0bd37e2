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
from ...router import read_settings
from ...store import Store
from . import description, javascript, python, vectors
from .portable import QUANTISED_PRODUCT, make_portable
from .steering import write_steering

BASE_ONLY = "none"
ALL = "all"

_GRAPH = "text.onnx"
_VISION = ("image.onnx", "image_head.onnx")
_LEAST_SAVING = 0.95


class Target(str, Enum):
    """Where a bundle runs."""

    PYTHON = "python"
    NODE = "node"
    WEB = "web"


class Precision(str, Enum):
    """Arithmetic of the text graph."""

    INT8 = "int8"
    """Weights and activations in int8, the latter scaled by row: as shipped, and the fastest."""
    PORTABLE = "portable"
    """Weights in int8, arithmetic in floats: the same vectors on every machine."""
    BLOCK = "block"
    """Weights quantised by blocks."""
    FLOAT = "float"


_MARKS = {Precision.INT8: QUANTISED_PRODUCT.encode(), Precision.BLOCK: b"MatMulNBits"}


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
    precision: Precision | None = None,
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
        precision: of the text graph. When omitted, as the model is for Python, so that vectors
            are those of the SDK; and of an int8 model the portable one for Node and
            browsers, which would otherwise round to other levels.
        images: take the vision tower along.
        store: whose documents and vectors to take along.
        root: folder that file names of its documents are written relative to.

    Returns:
        What was written.

    Raises:
        ExportError: when the folder holds something else, the model cannot have the precision, or
            the JavaScript part cannot be built.
        MissingExtraError: when a graph must be rewritten and onnx is not installed.
        UnknownExpertError: when an expert is not loaded.
    """
    model, manifest = embedder.model, embedder.model.manifest
    graph = (model.directory / _GRAPH).read_bytes()
    own = _precision_of(graph)
    served = _choose_precision(own, precision, target, manifest.name)
    if served is not own:
        graph = make_portable(graph)
    chosen = choose(embedder.experts, manifest, experts)
    _check_out(out)
    images = images and manifest.image is not None
    _check_readable(manifest, images)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".bundle-") as scratch:
        folder = Path(scratch) / "bundle"
        folder.mkdir()
        settings = read_settings(model.directory, manifest.gate_dim)
        content = description.describe(
            model.directory, manifest, chosen, settings, images=images, precision=served.value
        )
        for name in manifest.files:
            if images or not name.startswith(_VISION):
                shutil.copyfile(model.directory / name, folder / name)
        (folder / _GRAPH).write_bytes(graph)
        write_steering(folder, chosen, manifest.lora, settings)
        content["files"] = _list_files(folder)
        content["compressed"] = [] if target is Target.PYTHON else _compress(folder)
        count = vectors.export_store(store, folder / vectors.FOLDER, root=root) if store else 0
        content["documents"] = count
        if target is Target.PYTHON:
            python.add_runtime(folder)
        else:
            javascript.add_runtime(folder, page=target is Target.WEB)
        content["contents"] = sorted({*_all_files(folder), description.FILE_NAME})
        description.write(folder, content)
        folder.chmod(0o755)
        shutil.rmtree(out, ignore_errors=True)
        folder.replace(out)
    sizes = {
        file.relative_to(out).as_posix(): file.stat().st_size
        for file in sorted(out.rglob("*"))
        if file.is_file()
    }
    return BundleReport(out, chosen.bank.names[1:], served.value, count, sizes)


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
    return stack(kept, manifest.adaptable)


def _check_readable(manifest: Manifest, images: bool) -> None:
    """Refuse what the runtimes of bundles cannot do, rather than give other vectors there."""
    beyond = {
        "word embeddings of another width than its vectors": manifest.word_dim
        not in (0, manifest.dim),
        "adapters on its vision tower": images and bool(manifest.image_lora),
        "pictures that are not cut from the centre": images
        and manifest.image is not None
        and manifest.image.resize != "shortest",
    }
    for reason in (one for one, found in beyond.items() if found):
        raise ExportError(
            f"model {manifest.name!r} has {reason}, which edge bundles cannot serve; "
            "export text only, or another model"
        )


def _precision_of(graph: bytes) -> Precision:
    # Names of operators stand in the file as they are, so that no ONNX parser is needed here.
    return next((one for one, mark in _MARKS.items() if mark in graph), Precision.FLOAT)


def _choose_precision(
    own: Precision, wanted: Precision | None, target: Target, model: str
) -> Precision:
    possible = (own, Precision.PORTABLE) if own is Precision.INT8 else (own,)
    if wanted is None:
        return own if target is Target.PYTHON else possible[-1]
    if wanted in possible:
        return wanted
    given = " or ".join(f"--precision {one.value}" for one in possible)
    raise ExportError(
        f"the text graph of model {model!r} is {own.value} and cannot become {wanted.value}; "
        f"give {given}, or --model with a model directory of that precision"
    )


def _check_out(out: Path) -> None:
    """Refuse to replace what is not, to the last file, a bundle."""
    if out.exists() and not out.is_dir():
        raise ExportError(f"{out} is a file; name a folder")
    if out.is_dir() and any(out.iterdir()) and not (out / description.FILE_NAME).is_file():
        raise ExportError(f"{out} holds something that is no bundle; name a new folder")
    if (out / description.FILE_NAME).is_file():
        foreign = sorted(_all_files(out) - description.contents(out))
        if foreign:
            raise ExportError(
                f"{out} holds {foreign[0]!r}, which is no part of a bundle; a bundle is replaced "
                "whole: move that file, or name a new folder"
            )


def _all_files(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}


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
