"""Training an expert on a user's own pairs."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from ...errors import InputError
from ...models.arrays import Floats
from .base import Base
from .data import Collection, LabelledQueries
from .evaluate import Metrics, as_record
from .loop import TrainConfig, fit
from .lora import Adapter, LoraSettings
from .measure import measure
from .negatives import consistent
from .pairs import read_pairs
from .strength import choose_scale
from .tasks import UNSEEN, Partition, Probe, Task, build_task, encode_labels, partition
from .tower import query_states

logger = logging.getLogger(__name__)

_JUDGE = "held-out documents"
_SCALES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_FEWEST = 4


@dataclass(frozen=True)
class TrainReport:
    """What came of a training run.

    Attributes:
        name: name of the expert.
        adapter: folder with the adapter, in PEFT's format.
        scale: strength that dev chose.
        before: metrics of the base, by test.
        after: metrics of the expert, on the same queries; neither training nor any choice saw
            their documents.
        steps: optimiser steps kept.
        trained_on: number of training queries.
        dropped: training queries left out because the base ranks none of their documents high
            enough.
        gate_queries: queries that were kept from training, for the gate's pilots.
    """

    name: str
    adapter: Path
    scale: float
    before: Mapping[str, Metrics]
    after: Mapping[str, Metrics]
    steps: int
    trained_on: int
    dropped: int
    gate_queries: tuple[str, ...]

    @property
    def base(self) -> Metrics:
        """The base on held-out documents."""
        return self.before[_JUDGE]

    @property
    def own(self) -> Metrics:
        """The expert on the same queries."""
        return self.after[_JUDGE]

    @property
    def better_than_base(self) -> bool:
        """True when the expert's nDCG@10 on held-out documents is above the base's."""
        return self.own.ndcg > self.base.ndcg

    def figures(self) -> dict[str, float]:
        """Give the measures as a card holds them.

        Returns:
            Measures by name.
        """
        return {
            "base nDCG@10": round(self.base.ndcg, 4),
            "nDCG@10": round(self.own.ndcg, 4),
            "base Recall@10": round(self.base.recall, 4),
            "Recall@10": round(self.own.recall, 4),
        }


@dataclass(frozen=True)
class UserConfig:
    """Settings of a run on user data.

    Attributes:
        train: settings of the loop; ``steps`` is an upper bound.
        epochs: at most this many passes over the pairs.
        gate_share: share of queries kept for the gate.
        unseen_share: share of documents held out for dev and for the final comparison.
        consistency_depth: drop training queries whose documents the base ranks lower than this;
            ``None`` keeps all.
    """

    train: TrainConfig = field(
        default_factory=lambda: TrainConfig(steps=400, learning_rate=2e-4, eval_every=20)
    )
    epochs: int = 8
    gate_share: float = 0.1
    unseen_share: float = 0.25
    consistency_depth: int | None = None

    @classmethod
    def of(cls, steps: int) -> UserConfig:
        """Make the default settings with another bound on the steps.

        Args:
            steps: optimiser steps at most.

        Returns:
            The settings.
        """
        default = cls()
        return replace(default, train=replace(default.train, steps=steps))


def train_expert(
    name: str,
    *,
    pairs: Path,
    out: Path,
    base: Base,
    start: Path | None = None,
    config: UserConfig = UserConfig(),
) -> TrainReport:
    """Train an expert on pairs and compare it with the base on held-out documents.

    Writes the adapter, ``report.json`` and a folder ``run`` with configuration, history and
    checkpoint; an interrupted run resumes.

    Args:
        name: name of the expert.
        pairs: a jsonl file; see :func:`omniembed.experts.training.pairs.read_pairs`.
        out: folder to write to.
        base: the frozen base, without an adapter.
        start: folder of an adapter to begin with, such as the general expert's.
        config: settings.

    Returns:
        The report. Whether to keep an expert that is no better is the caller's choice.

    Raises:
        InputError: when the file is malformed or names too few documents to hold any out.
    """
    collection = read_pairs(pairs)
    part = partition(collection, gate_share=config.gate_share, unseen_share=config.unseen_share)
    dev, judge = _halves(part.unseen)
    if min(len(part.train), len(dev), len(judge)) < _FEWEST:
        raise InputError(
            f"{pairs} gives {len(part.train)} queries to train on and {len(part.unseen)} for "
            f"held-out documents; {_FEWEST} and {2 * _FEWEST} are needed: add more documents"
        )
    part, dropped = _filter(part, collection, base, config.consistency_depth)
    task = build_task(collection, part, base)
    choosing = Probe(encode_labels(dev, base), task.documents)
    judging = {_JUDGE: Probe(encode_labels(judge, base), task.documents)}
    task = replace(task, dev={UNSEEN: choosing})
    before = measure(base.tower, judging)
    train = _bounded(config, len(part.train))
    out.mkdir(parents=True, exist_ok=True)
    (out / "run").mkdir(exist_ok=True)
    record = json.dumps(
        {**asdict(config), "base": base.fingerprint, "steps": train.steps}, indent=2
    )
    (out / "run" / "config.json").write_text(record + "\n", encoding="utf-8")
    settings = LoraSettings(base.targets, train.rank, train.alpha)
    adapter = Adapter(base.tower, settings, seed=train.seed, start=start)
    try:
        foreign = _by_kind(collection, task)
        progress = fit(base.tower, adapter, [task], train, out / "run", foreign=foreign)
        choice = choose_scale(base.tower, adapter, {UNSEEN: choosing}, {}, _SCALES)
        after = measure(base.tower, judging)
        adapter.save(out)
    finally:
        adapter.remove(base.tower)
    report = TrainReport(
        name=name,
        adapter=out,
        scale=choice.scale,
        before=before,
        after=after,
        steps=progress.best_step,
        trained_on=len(part.train),
        dropped=dropped,
        gate_queries=part.gate.texts,
    )
    _write(report)
    return report


def _filter(
    part: Partition, collection: Collection, base: Base, depth: int | None
) -> tuple[Partition, int]:
    if depth is None:
        return part, 0
    queries = query_states(base.tower, part.train.texts, base.states).base
    documents = base.cache.vectors(collection.documents)
    keep = np.flatnonzero(consistent(queries, documents, part.train.relevant, depth))
    dropped = len(part.train) - len(keep)
    return replace(part, train=part.train.select(keep.tolist())), dropped


def _halves(labels: LabelledQueries) -> tuple[LabelledQueries, LabelledQueries]:
    """Divide queries so that the halves share documents only through several positives."""
    owners = [min(relevant) for relevant in labels.relevant]
    order = {owner: place for place, owner in enumerate(sorted(set(owners)))}
    parts: tuple[list[int], list[int]] = ([], [])
    for row, owner in enumerate(owners):
        parts[order[owner] % 2].append(row)
    return labels.select(parts[0]), labels.select(parts[1])


def _bounded(config: UserConfig, queries: int) -> TrainConfig:
    per_epoch = max(1, queries // config.train.batch_size)
    return replace(config.train, steps=max(10, min(config.train.steps, config.epochs * per_epoch)))


def _by_kind(collection: Collection, task: Task) -> dict[str, Floats]:
    kinds = np.array([document.kind.value for document in collection.documents])
    return {str(kind): task.documents[kinds == kind] for kind in np.unique(kinds)}


def _write(report: TrainReport) -> None:
    content = {
        "name": report.name,
        "scale": report.scale,
        "before": as_record(report.before),
        "after": as_record(report.after),
        "better_than_base": report.better_than_base,
        "steps": report.steps,
        "trained_on": report.trained_on,
        "dropped": report.dropped,
        "gate_queries": list(report.gate_queries),
    }
    text = json.dumps(content, indent=2, ensure_ascii=False)
    (report.adapter / "report.json").write_text(text + "\n", encoding="utf-8")
