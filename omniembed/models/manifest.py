"""``model.json``: what a model directory holds and how its inputs are prepared (format 1)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ModelError

FORMAT = 1
FILE_NAME = "model.json"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of a model directory.

    Attributes:
        sha256: hex digest of its bytes.
        size: length in bytes.
    """

    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class LoraTarget:
    """A linear layer that adapters may change.

    Attributes:
        name: dotted module path in the torch model, as PEFT names it.
        d_in: width of its input.
        d_out: width of its output.
    """

    name: str
    d_in: int
    d_out: int


@dataclass(frozen=True, slots=True)
class ImagePreprocessing:
    """How a picture becomes the vision tower's input.

    Attributes:
        size: side of the square input, pixels.
        crop: share of the resized picture that the centre crop keeps.
        resample: Pillow filter name, lower case.
        resize: ``"shortest"`` scales the shorter side and cuts the centre; ``"squash"`` brings
            both sides to the size.
    """

    size: int = 224
    crop: float = 0.875
    resample: str = "bicubic"
    # Not in the repr, which the fingerprint of the bundled model was made from.
    resize: str = field(default="shortest", repr=False)


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a part of the model came from.

    Attributes:
        part: what it is.
        source: package or project, with version.
        licence: SPDX identifier or name.
        sha256: hex digest of the input file, empty for parts computed here.
    """

    part: str
    source: str
    licence: str
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of ``model.json``.

    Attributes:
        name: model name.
        dim: width of the shared space.
        files: every file that the runtime reads, by name.
        fingerprint: identifies the weights that document vectors depend on.
        max_tokens: longest input of the text tower, special tokens included.
        gate_layer: number of text layers below the gate.
        gate_dim: width of the gate's state.
        lora: the layers that adapters may change, in the order of the graph's inputs.
        pooling: how token states become one vector.
        image: preprocessing of pictures; ``None`` for a model without a vision tower.
        provenance: source and licence of every part.
        format: format number.
        image_lora: layers of the vision tower that adapters may change; empty when it is frozen.
        word_dim: width of word embeddings, which pseudo-words have too; 0 when it is ``dim``.
        source: what loads the torch towers again, for training; empty for the bundled model.
    """

    name: str
    dim: int
    files: Mapping[str, FileEntry]
    fingerprint: str
    max_tokens: int
    gate_layer: int
    gate_dim: int
    lora: tuple[LoraTarget, ...]
    pooling: str = "mean"
    image: ImagePreprocessing | None = None
    provenance: tuple[Provenance, ...] = field(default=())
    format: int = FORMAT
    image_lora: tuple[LoraTarget, ...] = ()
    word_dim: int = 0
    source: str = ""

    @property
    def adaptable(self) -> tuple[LoraTarget, ...]:
        """The layers of both towers that adapters may change."""
        return (*self.lora, *self.image_lora)

    def write(self, directory: Path) -> None:
        """Write ``model.json``.

        Args:
            directory: the model directory.
        """
        text = json.dumps(asdict(self), indent=2, ensure_ascii=False)
        (directory / FILE_NAME).write_text(text + "\n", encoding="utf-8")


def read_manifest(directory: Path) -> Manifest:
    """Read and check ``model.json`` and the presence of every file it names.

    Args:
        directory: a model directory.

    Returns:
        The manifest.

    Raises:
        ModelError: when the directory, the file or an entry is missing or malformed.
    """
    path = directory / FILE_NAME
    try:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(
            f"{directory} is not a model directory: it has no {FILE_NAME}. "
            "Use model='mini' for the bundled model."
        ) from None
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {path}: {error}") from error
    if raw.get("format") != FORMAT:
        raise ModelError(
            f"{path} has format {raw.get('format')!r}; this version reads format {FORMAT}"
        )
    try:
        manifest = _parse(raw)
    except (KeyError, TypeError) as error:
        raise ModelError(f"{path} is malformed: {error!r}") from error
    _check_files(directory, manifest)
    return manifest


def _parse(raw: dict[str, Any]) -> Manifest:
    image = raw.get("image")
    fields = {
        **raw,
        "files": {name: FileEntry(**entry) for name, entry in raw["files"].items()},
        "lora": tuple(LoraTarget(**target) for target in raw["lora"]),
        "image_lora": tuple(LoraTarget(**target) for target in raw.get("image_lora", ())),
        "image": ImagePreprocessing(**image) if image else None,
        "provenance": tuple(Provenance(**part) for part in raw.get("provenance", ())),
    }
    return Manifest(**fields)


def _check_files(directory: Path, manifest: Manifest) -> None:
    for name, entry in manifest.files.items():
        if Path(name).name != name:
            raise ModelError(f"{directory / FILE_NAME} names a file outside its folder: {name!r}")
        file = directory / name
        size = file.stat().st_size if file.is_file() else None
        if size != entry.size:
            found = "it is missing" if size is None else f"it has {size} bytes"
            raise ModelError(
                f"{file} should have {entry.size} bytes but {found}; "
                "copy the model directory again, whole"
            )


def verify_hashes(directory: Path, manifest: Manifest) -> None:
    """Compare every file with its recorded SHA-256.

    Args:
        directory: the model directory.
        manifest: its manifest.

    Raises:
        ModelError: naming the first file that differs.
    """
    for name, entry in manifest.files.items():
        digest = file_entry(directory / name).sha256
        if digest != entry.sha256:
            raise ModelError(f"{directory / name} is damaged: SHA-256 {digest}, not {entry.sha256}")


def file_entry(path: Path) -> FileEntry:
    """Measure a file.

    Args:
        path: the file.

    Returns:
        Its digest and size.
    """
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256") if hasattr(hashlib, "file_digest") else None
        if digest is None:  # Python 3.10
            digest = hashlib.sha256()
            while block := stream.read(1 << 20):
                digest.update(block)
    return FileEntry(sha256=digest.hexdigest(), size=path.stat().st_size)


def fingerprint(parts: Mapping[str, str]) -> str:
    """Combine the digests of everything that document vectors depend on.

    Args:
        parts: digest or setting, by name.

    Returns:
        16 hex digits.
    """
    canonical = json.dumps(dict(sorted(parts.items())), separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
