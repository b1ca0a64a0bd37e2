"""From a backbone to a model directory, checked against torch before it is left anywhere."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from torch import nn

from ..errors import ExportError
from ..experts.training.backbones.load import load_source
from ..experts.training.backbones.source import BackboneSource
from ..models.arrays import AdapterBank, GateArrays
from ..models.manifest import LoraTarget, Manifest, file_entry, fingerprint
from .int8 import norm_peaks
from .onnx_io import save_split, strip_debug_info
from .parity import THRESHOLDS, ParityReport, Thresholds, judge, measure_directory, operators
from .precision import DEFAULT, PRECISIONS, apply_precision, check_precision
from .reference import Reference
from .text import RoutedText, export_text
from .torch_side import compute_reference
from .vision import Pictures, RoutedVision, export_vision, vision_targets

_SHIPPED = ("text.onnx", "text.onnx.data", "tokenizer.json", "image.onnx", "image.onnx.data")
_DOCUMENT_PARTS = ("text.onnx.data", "tokenizer.json", "image.onnx.data")
Peaks = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class ExportConfig:
    """How a backbone is exported.

    Attributes:
        precision: of the directory that is written.
        gate_layer: number of text layers below the gate; half of them when ``None``.
        lora: which linear layers above the gate carry adapters: ``"all"``, or ``"mlp"`` or
            ``"attention"`` alone.
        inputs: folder of .txt files and pictures to check parity with; built-in when ``None``.
        compare: measure all precisions, not only this one and fp32.
        force: keep a directory that lies below the thresholds, and replace an existing one.
    """

    precision: str = DEFAULT
    gate_layer: int | None = None
    lora: str = "all"
    inputs: Path | None = None
    compare: bool = False
    force: bool = False


def export_model(
    spec: str,
    out: str | Path,
    *,
    vision: str | None = None,
    config: ExportConfig = ExportConfig(),
    thresholds: Mapping[str, Thresholds] = THRESHOLDS,
) -> ParityReport:
    """Export a backbone to a model directory and check it against torch.

    Args:
        spec: ``open_clip:MODEL/PRETRAINED``, ``open_clip:FOLDER`` or ``hf:NAME_OR_FOLDER``.
        out: the directory.
        vision: a vision tower aligned to the text tower, in the same forms.
        config: settings.
        thresholds: what must be reached, by precision.

    Returns:
        The report, which also lies in the directory.

    Raises:
        ExportError: when the backbone cannot be loaded or exported, naming the module; when the
            directory exists; or when the result lies below the thresholds (nothing is left then).
    """
    check_precision(config.precision)
    _check_target(Path(out), config.force)
    return export_source(load_source(spec, vision), out, config=config, thresholds=thresholds)


def export_source(
    source: BackboneSource,
    out: str | Path,
    *,
    config: ExportConfig = ExportConfig(),
    thresholds: Mapping[str, Thresholds] = THRESHOLDS,
) -> ParityReport:
    """Export a backbone that is loaded already. Its modules are changed and of no use afterwards.

    Args:
        source: the backbone.
        out: the directory.
        config: settings.
        thresholds: what must be reached, by precision.

    Returns:
        The report.

    Raises:
        ExportError: see :func:`export_model`.
    """
    check_precision(config.precision)
    target = Path(out)
    _check_target(target, config.force)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".export-") as scratch:
        work = Path(scratch)
        exporter = _Exporter(source, config, work)
        reference = exporter.reference()
        exporter.trace()
        if config.compare or config.precision == "int8":
            exporter.calibrate()
        measured = dict.fromkeys(("fp32", config.precision))
        rows = []
        for precision in PRECISIONS if config.compare else measured:
            directory = exporter.build(precision)
            rows += measure_directory(directory, precision, reference)
            if precision != config.precision:
                shutil.rmtree(directory)
        finished = work / config.precision
        opset, counts = operators(finished)
        decisive = [row for row in rows if row.precision in measured]
        report = ParityReport(
            name=source.name,
            precision=config.precision,
            opset=opset,
            operators=counts,
            rows=tuple(rows),
            failures=judge(decisive, thresholds),
        )
        if not report.passed and not config.force:
            raise ParityError(report)
        reference.write(finished)
        report.write(finished)
        if target.exists():
            shutil.rmtree(target)
        finished.rename(target)
    return report


class ParityError(ExportError):
    """The exported graphs differ too much from torch; nothing was left behind."""

    def __init__(self, report: ParityReport) -> None:
        super().__init__(
            f"{report.name} was not exported: {'; '.join(report.failures)}. "
            "Choose another precision, or keep it anyway with --force"
        )
        self.report = report


def _check_target(out: Path, force: bool) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / "model.json").is_file():
        raise ExportError(f"{out} exists and is no model directory; name another folder")
    if not force:
        raise ExportError(f"{out} holds a model already; use --force to replace it")


class _Exporter:
    """The steps of one export."""

    def __init__(self, source: BackboneSource, config: ExportConfig, work: Path) -> None:
        self._source = source
        self._work = work
        self._precision = config.precision
        self._inputs = config.inputs
        layers = len(source.text.layers)
        self._gate_layer = layers // 2 if config.gate_layer is None else config.gate_layer
        if not 0 < self._gate_layer < layers:
            raise ExportError(
                f"gate layer {self._gate_layer} must lie in 1..{layers - 1}: the text tower has "
                f"{layers} layers, and adapters live above the gate"
            )
        self._pictures = None if source.vision is None else Pictures(source.vision).eval()
        model = source.text.model
        self._lora = _targets(model, source.text.targets(self._gate_layer), config.lora)
        self._image_lora: tuple[LoraTarget, ...] = ()
        if self._pictures is not None:
            names = vision_targets(self._pictures)
            self._image_lora = _targets(self._pictures, names, config.lora)
        self._peaks: dict[str, Peaks] = {}

    def reference(self) -> Reference:
        reference = compute_reference(
            self._source,
            self._pictures,
            gate_layer=self._gate_layer,
            text_targets=self._lora,
            image_targets=self._image_lora,
            inputs=self._inputs,
        )
        dims = {reference.vectors.shape[1], reference.pictures.shape[1]}
        if len(dims) != 1:
            raise ExportError(
                f"text vectors have {reference.vectors.shape[1]} dimensions and pictures "
                f"{reference.pictures.shape[1]}: the vision tower is not aligned to this text tower"
            )
        self._calibration = reference.pixels
        return reference

    def trace(self) -> None:
        """Write both fp32 graphs."""
        source, folder = self._source, self._work / "traced"
        folder.mkdir()
        root: Any = source.text.model
        if source.vision is not None and getattr(root, "visual", None) is source.vision.module:
            root.visual = nn.Identity()  # traced by itself
        names = [target.name for target in self._lora]
        with torch.no_grad():
            tower = RoutedText(source.text, self._gate_layer, names).eval()
            export_text(tower, folder / "text.onnx")
            if self._pictures is not None and source.vision is not None:
                inner = [target.name for target in self._image_lora]
                routed = RoutedVision(self._pictures, inner).eval()
                side = source.vision.preprocessing.size
                export_vision(routed, folder / "image.onnx", side=side)

    def calibrate(self) -> None:
        """Measure what int8 needs to know."""
        folder = self._work / "traced"
        for name, feeds in (("text.onnx", self._texts), ("image.onnx", self._see)):
            if (folder / name).exists():
                self._peaks[name] = norm_peaks(onnx.load(folder / name), _runner(folder, feeds))

    def build(self, precision: str) -> Path:
        """Write a whole directory in one precision."""
        source, directory = self._source, self._work / precision
        directory.mkdir()
        for path in sorted((self._work / "traced").glob("*.onnx")):
            model = apply_precision(onnx.load(path), precision, self._peaks.get(path.name, {}))
            strip_debug_info(model)
            save_split(model, directory / path.name)
        source.tokenizer.no_truncation()
        source.tokenizer.save(str(directory / "tokenizer.json"))
        entries = {
            name: file_entry(directory / name) for name in _SHIPPED if (directory / name).exists()
        }
        preprocessing = None if source.vision is None else source.vision.preprocessing
        parts = {name: entries[name].sha256 for name in _DOCUMENT_PARTS if name in entries}
        settings = f"{source.text.pooling}|{source.max_tokens}|{preprocessing}|{precision}"
        origin = "|".join(part.sha256 for part in source.provenance)
        manifest = Manifest(
            name=source.name,
            dim=source.text.dim,
            files=entries,
            fingerprint=fingerprint({"settings": settings, "source": origin, **parts}),
            max_tokens=source.max_tokens,
            gate_layer=self._gate_layer,
            gate_dim=source.text.width,
            lora=self._lora,
            pooling=source.text.pooling,
            image=preprocessing,
            provenance=source.provenance,
            image_lora=self._image_lora,
            word_dim=source.text.width,
            source=source.spec,
        )
        manifest.write(directory)
        return directory

    def _texts(self) -> Iterator[dict[str, NDArray[Any]]]:
        width = self._source.text.width
        constant = {
            "prefix": np.zeros((1, 0, width), np.float32),
            "expert": np.zeros((1, 1), np.int64),
            "weight": np.zeros((1, 1), np.float32),
            **GateArrays.closed(width).feeds(),
            **AdapterBank.base_only(self._lora).feeds(self._lora),
        }
        tokenizer = self._source.tokenizer
        tokenizer.enable_truncation(self._source.max_tokens)
        texts = (files("omniembed.export") / "calibration.txt").read_text(encoding="utf-8")
        for text in texts.splitlines():
            ids = np.array([tokenizer.encode(text).ids], np.int64)
            yield {"input_ids": ids, "attention_mask": np.ones_like(ids), **constant}

    def _see(self) -> Iterator[dict[str, NDArray[Any]]]:
        targets = self._image_lora
        steering: dict[str, NDArray[Any]] = {}
        if targets:
            bank = AdapterBank.base_only(targets).feeds(targets)
            steering = {
                "expert": np.zeros((1, 1), np.int64),
                "weight": np.zeros((1, 1), np.float32),
                **bank,
            }
        for one in _calibration_pictures(self._calibration):
            yield {"pixels": one[None], **steering}


def _calibration_pictures(pixels: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    """Make pictures that differ from those that parity is measured on: cut apart and mirrored."""
    for one in pixels:
        turned = np.rot90(one[:, ::-1])
        yield np.ascontiguousarray(np.roll(turned, turned.shape[0] // 3, axis=(0, 1)))


def _runner(folder: Path, feeds: Callable[[], Iterator[dict[str, NDArray[Any]]]]) -> Any:
    def run(
        probe: onnx.ModelProto, outputs: Sequence[str]
    ) -> Iterator[Sequence[NDArray[np.float32]]]:
        if not outputs:
            return
        path = folder / "probe.onnx"
        save_split(probe, path)
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        for inputs in feeds():
            yield session.run(list(outputs), inputs)
        path.unlink()
        path.with_name(f"{path.name}.data").unlink(missing_ok=True)

    return run


def _targets(model: nn.Module, names: Sequence[str], kind: str) -> tuple[LoraTarget, ...]:
    if kind not in ("all", "mlp", "attention"):
        raise ExportError(f"lora must be all, mlp or attention, not {kind!r}")
    found = []
    for name in names:
        layer = cast("nn.Linear", model.get_submodule(name))
        attention = any(part in ("attn", "attention", "self_attn") for part in name.split("."))
        if kind == "all" or attention == (kind == "attention"):
            found.append(LoraTarget(name, layer.in_features, layer.out_features))
    return tuple(found)
