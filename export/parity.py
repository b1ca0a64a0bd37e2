"""The parity report: an exported directory, run as users run it, against torch."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..models.arrays import AdapterBank, Floats
from ..models.manifest import LoraTarget
from ..models.model import Model
from ..models.session import SessionOptions
from .reference import Reference, adapter_bank

FILE_NAME = "parity.json"
_ROUNDS = 9


@dataclass(frozen=True)
class Thresholds:
    """What a directory must reach.

    Attributes:
        cosine: smallest cosine to torch, of vectors and of the gate's states.
        adapter: the same with an adapter on.
        batch: largest difference of a vector alone and in a batch.
    """

    cosine: float
    adapter: float
    batch: float = 1e-5


THRESHOLDS: Mapping[str, Thresholds] = {
    "fp32": Thresholds(0.9999, 0.999),
    "fp16": Thresholds(0.9999, 0.999),
    "int8": Thresholds(0.995, 0.99),
    "block8": Thresholds(0.999, 0.995),
    "block4": Thresholds(0.93, 0.9),
}


@dataclass(frozen=True)
class ParityRow:
    """One tower in one precision.

    Attributes:
        precision: of the weights.
        tower: ``"text"`` or ``"image"``.
        inputs: number of texts or pictures compared.
        cosine_min: smallest cosine to torch.
        cosine_median: median cosine.
        state_min: smallest cosine of the gate's states; 1 for pictures.
        adapters: smallest cosine to torch with PEFT, an adapter each.
        adapter_effect: median cosine of torch's vectors with and without the adapters: how much
            there was to get wrong.
        batch_difference: largest difference of a vector alone and in a batch.
        megabytes: of the tower's files.
        milliseconds: median of one text or picture on one thread.
    """

    precision: str
    tower: str
    inputs: int
    cosine_min: float
    cosine_median: float
    state_min: float
    adapters: tuple[float, ...]
    adapter_effect: float
    batch_difference: float
    megabytes: float
    milliseconds: float

    def failures(self, limits: Thresholds) -> list[str]:
        """Say what lies below the thresholds.

        Args:
            limits: the thresholds.

        Returns:
            A sentence each; none when all is well.
        """
        where = f"{self.tower} tower, {self.precision}"
        cosine = min(self.cosine_min, self.state_min)
        found = []
        if not cosine >= limits.cosine:
            found.append(f"{where}: cosine to torch {cosine:.5f} < {limits.cosine}")
        if self.adapters and not min(self.adapters) >= limits.adapter:
            found.append(f"{where}: with an adapter {min(self.adapters):.5f} < {limits.adapter}")
        if not self.batch_difference <= limits.batch:
            found.append(
                f"{where}: alone and in a batch {self.batch_difference:.1e} > {limits.batch:.0e}"
            )
        return found


@dataclass(frozen=True)
class ParityReport:
    """What an export measured.

    Attributes:
        name: of the model.
        precision: of the directory that was written.
        opset: of the graphs.
        operators: how often each operator occurs, by graph.
        rows: a tower and precision each.
        failures: what lies below the thresholds; of the written precision and of fp32.
    """

    name: str
    precision: str
    opset: int
    operators: Mapping[str, Mapping[str, int]]
    rows: tuple[ParityRow, ...]
    failures: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """True when nothing lies below the thresholds."""
        return not self.failures

    def write(self, directory: Path) -> None:
        """Write ``parity.json``.

        Args:
            directory: of the model.
        """
        content = {**asdict(self), "passed": self.passed}
        text = json.dumps(content, indent=2, ensure_ascii=False)
        (directory / FILE_NAME).write_text(text + "\n", encoding="utf-8")


def measure_directory(directory: Path, precision: str, reference: Reference) -> list[ParityRow]:
    """Run a model directory on the reference's inputs.

    Args:
        directory: of the model.
        precision: of its weights.
        reference: what torch computed.

    Returns:
        A row for every tower.
    """
    model = Model(directory, SessionOptions(threads=1))
    rows = [_text(model, precision, reference)]
    if len(reference.pixels):
        rows.append(_pictures(model, precision, reference))
    return rows


def _text(model: Model, precision: str, reference: Reference) -> ParityRow:
    tower = model.text
    tokens = tower.tokenizer.encode(reference.texts)
    bank = adapter_bank(model.manifest.lora, reference.spread)
    output = tower.encode(tokens)
    alone = np.concatenate([tower.encode([one]).vectors for one in tokens])

    def adapted(row: int) -> Floats:
        experts = np.full((len(tokens), 1), row, np.int64)
        return tower.encode(tokens, experts=experts, bank=bank).vectors

    short = min(tokens, key=lambda one: abs(len(one.ids) - 12))
    return _row(
        precision,
        "text",
        output.vectors,
        reference.vectors,
        adapted,
        reference.adapted,
        alone,
        state_min=float(_cosines(output.states, reference.states).min()),
        megabytes=_megabytes(model.directory, "text.onnx"),
        milliseconds=_milliseconds(lambda: tower.encode([short])),
    )


def _pictures(model: Model, precision: str, reference: Reference) -> ParityRow:
    tower, targets = model.vision, model.manifest.image_lora
    pixels = list(reference.pixels)
    bank = _bank(targets, reference)
    vectors = tower.encode(pixels).vectors
    alone = np.concatenate([tower.encode([one]).vectors for one in pixels])

    def adapted(row: int) -> Floats:
        experts = np.full((len(pixels), 1), row, np.int64)
        return tower.encode(pixels, experts=experts, bank=bank).vectors

    return _row(
        precision,
        "image",
        vectors,
        reference.pictures,
        adapted,
        reference.adapted_pictures,
        alone,
        state_min=1.0,
        megabytes=_megabytes(model.directory, "image"),
        milliseconds=_milliseconds(lambda: tower.encode(pixels[:1])),
    )


def _bank(targets: Sequence[LoraTarget], reference: Reference) -> AdapterBank | None:
    return adapter_bank(targets, reference.spread) if targets else None


def _row(
    precision: str,
    tower: str,
    vectors: Floats,
    expected: Floats,
    adapted: Callable[[int], Floats],
    expected_adapted: Sequence[Floats],
    alone: Floats,
    *,
    state_min: float,
    megabytes: float,
    milliseconds: float,
) -> ParityRow:
    cosines = _cosines(vectors, expected)
    effect = [float(np.median(_cosines(one, expected))) for one in expected_adapted]
    return ParityRow(
        precision=precision,
        tower=tower,
        inputs=len(expected),
        cosine_min=float(cosines.min()),
        cosine_median=float(np.median(cosines)),
        state_min=state_min,
        adapters=tuple(
            float(_cosines(adapted(at + 1), one).min()) for at, one in enumerate(expected_adapted)
        ),
        adapter_effect=float(np.mean(effect)) if effect else 1.0,
        batch_difference=float(np.abs(vectors - alone).max()),
        megabytes=megabytes,
        milliseconds=milliseconds,
    )


def _cosines(a: Floats, b: Floats) -> NDArray[np.float64]:
    x, y = a.astype(np.float64), b.astype(np.float64)
    norms = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    return np.asarray((x * y).sum(axis=1) / np.maximum(norms, 1e-12), np.float64)


def _megabytes(directory: Path, stem: str) -> float:
    return sum(path.stat().st_size for path in directory.glob(f"{stem}*")) / 1e6


def _milliseconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:]) * 1000)


def operators(directory: Path) -> tuple[int, dict[str, dict[str, int]]]:
    """Count the operators of a directory's graphs.

    Args:
        directory: of the model.

    Returns:
        The opset, and the counts by file. Needs the ``train`` extra.
    """
    import onnx

    opset, counts = 0, {}
    for path in sorted(directory.glob("*.onnx")):
        model = onnx.load(path, load_external_data=False)
        opset = max(opset, *(one.version for one in model.opset_import if not one.domain))
        kinds = Counter(
            f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            for node in model.graph.node
        )
        counts[path.name] = dict(sorted(kinds.items()))
    return opset, counts


def judge(rows: Sequence[ParityRow], thresholds: Mapping[str, Thresholds]) -> tuple[str, ...]:
    """Collect what lies below the thresholds.

    Args:
        rows: to judge.
        thresholds: by precision.

    Returns:
        Sentences.
    """
    return tuple(text for row in rows for text in row.failures(thresholds[row.precision]))
