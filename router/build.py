"""Build the gate of a model: ``python -m omniembed.router.build --data DIR --cache DIR``.

Writes ``pilots.safetensors`` into every pack and ``gate.json`` beside them. Needs the ``train``
extra. Nothing is fitted on, or chosen by, a test split.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean

import numpy as np

from ..embedder import Embedder
from ..experts.registry import ExpertRegistry
from ..experts.training.sources import Sources
from ..models.arrays import Floats
from ..models.manifest import Manifest
from ..models.model import Model
from .alternatives import Gate, PilotGate
from .calibrate import Platt, fit_platt, outcomes
from .candidates import all_gates
from .collect import Collector
from .decisions import CalibratedGate, Outcome, calibrate, outcome
from .kinds import UNKNOWN, KindClassifier, fit_kinds, kept
from .learned import LinearGate
from .library import build_pilots
from .settings import GateSettings
from .study import Study, collect_study
from .table import UtilityTable

logger = logging.getLogger(__name__)

DEFAULT = "pairwise"
"""The gate that ships; the best on dev, see docs/ARCHITECTURE.md."""

HARM_PRICE = 0.03
"""nDCG@10 that a harmed query costs, beside what it lost: people remember the failures."""

QUIET_NOISE = 0.9
"""Share of every sort of noise on which the gate must keep to the base."""

MAX_ABSTAIN = 0.12
"""Share of in-domain queries on which it may."""

KEPT_KINDS = 0.965
"""Share of queries whose own kind of document a search must not rule out."""

_COVERS = (0.9, 0.93, 0.95, 0.97, 0.98, 0.985, 0.99, 0.9925, 0.995, 0.998, 0.999, 0.9995, 0.9999)
_THRESHOLDS = np.arange(0.3, 0.71, 0.02)
_RAMPS = (1e-6, 0.1, 0.2, 0.3)


def gate_layers(manifest: Manifest) -> list[str]:
    """List the layers that read the gate's state.

    Args:
        manifest: of the model.

    Returns:
        Names of the first adapted layer's query, key and value.
    """
    first = manifest.lora[0].name.split(".")[:3]
    prefix = ".".join([*first, "attention.self."])
    return [target.name for target in manifest.lora if target.name.startswith(prefix)]


def calibrated(gate: Gate, study: Study) -> CalibratedGate:
    """Fit a gate's confidence and choose its threshold on dev.

    Tries a curve for every expert and one for all, with all thresholds and ramps. Of those that
    keep noise quiet and abstain seldom in domain, the one with the best mean gain after
    :data:`HARM_PRICE` is taken; where none does both, the one that comes closest.

    Args:
        gate: scores the experts.
        study: dev and guard queries.

    Returns:
        The gate with curves, threshold and ramp.
    """
    judged = [*study.dev, *study.guards]
    known = _Remembered(gate)
    fitted = [calibrate(known, judged, common=common) for common in (False, True)]

    def worth(one: CalibratedGate) -> tuple[float, float]:
        home, away, noise = dev_outcomes(one, study)
        excess = max(0.0, QUIET_NOISE - noise) + max(
            0.0, fmean(o.abstained for o in home) - MAX_ABSTAIN
        )
        net = [fmean(o.gain - HARM_PRICE * o.harmed for o in part) for part in (home, away)]
        return -round(excess, 3), sum(net)

    best = max(
        (
            replace(one, threshold=float(threshold), ramp=ramp)
            for one in fitted
            for threshold in _THRESHOLDS
            for ramp in _RAMPS
        ),
        key=worth,
    )
    return replace(best, gate=gate)


class _Remembered:
    """A gate that scores each table once, however many thresholds are tried on it."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._scores: dict[int, Floats] = {}

    @property
    def name(self) -> str:
        return self._gate.name

    def score(self, states: Floats) -> Floats:
        # The study keeps its tables alive, so their identity is a safe key.
        if id(states) not in self._scores:
            self._scores[id(states)] = self._gate.score(states)
        return self._scores[id(states)]


def dev_outcomes(gate: CalibratedGate, study: Study) -> tuple[list[Outcome], list[Outcome], float]:
    """Look up what a gate is worth on dev.

    Args:
        gate: with curve and threshold.
        study: dev and guard queries.

    Returns:
        Outcomes in domain, outcomes on guards, and the share of noise left to the base, of
        the sort where that is least.
    """

    def look(tables: Sequence[UtilityTable]) -> list[Outcome]:
        choices = [gate.choose(table) for table in tables]
        return [
            outcome(table, choice.encoder, choice.weight)
            for table, choice in zip(tables, choices, strict=True)
        ]

    quiet = min(float((gate.choose(one).encoder == 0).mean()) for one in study.noise)
    return look(study.dev), look(study.guards), quiet


def write_gate(
    chosen: CalibratedGate, study: Study, directory: Path, measured: dict[str, object]
) -> None:
    """Write the gate into a model directory.

    Args:
        chosen: a linear gate.
        study: what it was built on.
        directory: of the model.
        measured: figures for people.

    Raises:
        TypeError: when the gate is not linear.
    """
    gate = chosen.gate
    if not isinstance(gate, LinearGate):
        raise TypeError(f"only a linear gate can be written, not {gate.name!r}")
    pilots = build_pilots(study.lessons.tables)
    for row, (name, own) in enumerate(pilots.items()):
        weights, bias = gate.weights[row], float(gate.bias[row])
        length = float(np.linalg.norm(weights))
        curve = chosen.curves[row]
        slope, offset = curve.slope * length, curve.slope * bias + curve.offset
        complete = replace(own, direction=weights / length, calibration=(slope, offset))
        complete.write(directory / "experts" / name)
    curve = pilot_curve(study)
    classifier, cover = kind_classifier(study)
    GateSettings(
        center=study.lessons.center,
        threshold=chosen.threshold,
        ramp=chosen.ramp,
        slope=curve.slope,
        offset=curve.offset,
        cover=cover,
        kinds=classifier.weights,
        measured=measured,
    ).write(directory)


def kind_classifier(study: Study) -> tuple[KindClassifier, float]:
    """Fit the classifier of kinds, and choose how sure it must be.

    Args:
        study: lessons, and dev and guard queries.

    Returns:
        The classifier, and the least cover that keeps :data:`KEPT_KINDS` of dev and of guard
        queries with their own kind.
    """
    lessons, kinds = study.lessons, study.kinds
    fitted = fit_kinds(
        lessons.tables, [kinds[one.name] for one in lessons.tables], lessons.noise, lessons.center
    )
    judged = {
        part: [one for one in tables if kinds[one.name] != UNKNOWN]
        for part, tables in (("dev", study.dev), ("guards", study.guards))
    }
    for cover in _COVERS:
        shares = {
            part: kept(fitted, tables, [kinds[one.name] for one in tables], cover)
            for part, tables in judged.items()
        }
        logger.info("cover %.4f: own kind kept, kinds ruled out %s", cover, shares)
        if min(share for share, _ in shares.values()) >= KEPT_KINDS:
            break
    return fitted, cover


def pilot_curve(study: Study) -> Platt:
    """Fit the confidence of experts that have pilots only.

    One curve serves whatever experts users add. Unlike learned scores, a similarity to pilots is
    not low for noise by itself, so noise counts here as much as two sets.

    Args:
        study: dev queries.

    Returns:
        The curve.
    """
    gate = PilotGate(
        "centred",
        study.lessons.center,
        build_pilots(study.lessons.tables),
        GateSettings.temperature,
    )
    judged = [*study.dev, *study.guards]
    scores = [gate.score(table.states) for table in judged]
    found, won, weights = outcomes(judged, scores, [score.argmax(axis=1) for score in scores])
    silent = np.concatenate([gate.score(one.states).max(axis=1) for one in study.noise])
    share = np.full(len(silent), weights.sum() * 2 / len(judged) / len(silent), np.float32)
    return fit_platt(
        np.concatenate([found, silent]),
        np.concatenate([won, np.zeros(len(silent), np.bool_)]),
        np.concatenate([weights, share]),
    )


def _report(gates: Sequence[CalibratedGate], study: Study) -> dict[str, object]:
    rows: dict[str, object] = {}
    for gate in gates:
        home, away, quiet = dev_outcomes(gate, study)
        rows[gate.gate.name] = {
            "threshold": round(gate.threshold, 2),
            "ramp": round(gate.ramp, 2),
            **{f"dev {key}": round(_mean(home, key), 4) for key in ("gain", "abstained", "harmed")},
            **{f"guard {key}": round(_mean(away, key), 4) for key in ("gain", "harmed", "helped")},
            "noise left to the base": round(quiet, 3),
        }
        logger.info("%s: %s", gate.gate.name, rows[gate.gate.name])
    return rows


def _mean(found: Sequence[Outcome], field: str) -> float:
    return fmean(float(asdict(one)[field]) for one in found)


def main() -> None:
    """Measure, fit, choose, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--cache", type=Path, required=True, help="vectors and utilities")
    parser.add_argument("--model", default="mini", help="bundled name or model directory")
    parser.add_argument("--limit", type=int, default=600, help="queries of a set at most")
    parser.add_argument("--gate", default=DEFAULT, help="the gate to write")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    model = Model.load(arguments.model)
    registry = ExpertRegistry(model.manifest, model.directory / "experts")
    packs = registry.state.packs
    names = tuple(name for name, pack in packs.items() if pack.composed is None)
    sources = Sources(arguments.data / "text_code_tool", arguments.data / "image")
    collector = Collector(Embedder(model, registry), sources, arguments.cache, names)
    study = collect_study(collector, arguments.limit)
    gates = [
        calibrated(gate, study)
        for gate in all_gates(study.lessons, packs, gate_layers(model.manifest))
    ]
    rows = _report(gates, study)
    chosen = next(gate for gate in gates if gate.gate.name == arguments.gate)
    write_gate(chosen, study, model.directory, {"gate": arguments.gate, "dev": rows})
    logger.info("wrote the %s gate:\n%s", arguments.gate, json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
