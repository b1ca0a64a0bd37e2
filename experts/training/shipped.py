"""From a recipe to a shipped adapter."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np

from ...errors import SourceNotFoundError
from ...models.arrays import Floats
from .base import Base
from .data import Collection, read_collection
from .evaluate import as_record
from .loop import Progress, fit
from .lora import Adapter, LoraSettings
from .measure import measure
from .recipes import FOREIGN, UNSEEN_SHARE, Recipe
from .strength import Choice, choose_scale
from .tasks import (
    GATE_SHARE,
    EncodedQueries,
    Partition,
    Probe,
    Task,
    build_task,
    partition,
)
from .tower import query_states

logger = logging.getLogger(__name__)

_FOREIGN_DOCUMENTS = 1000
"""Documents of every set in the mixed pool."""

_LOOK_QUERIES = 200
"""Queries of a dev split that are looked at during training; the choice of scale uses more."""

_PROBE_QUERIES = 1000


def train_recipe(recipe: Recipe, base: Base, data: Path, out: Path) -> Choice:
    """Train one shipped expert and write its adapter.

    Writes ``out/packs/NAME`` (adapter and ``metrics.json``) and ``out/runs/NAME`` (configuration,
    history, checkpoint, and the queries kept for the gate).

    Args:
        recipe: what to train.
        base: the frozen base.
        data: folder of the sets.
        out: folder of packs and runs.

    Returns:
        The strength and the dev measures behind it.

    Raises:
        SourceNotFoundError: when the expert to start from has not been trained.
    """
    run, pack = out / "runs" / recipe.name, out / "packs" / recipe.name
    start = out / "packs" / recipe.start if recipe.start else None
    if start and not start.is_dir():
        raise SourceNotFoundError(f"{start} is missing: train {recipe.start!r} first")
    run.mkdir(parents=True, exist_ok=True)
    _write(run / "config.json", {**asdict(recipe), "base": base.fingerprint, "gate": GATE_SHARE})
    tasks, own = _prepare(recipe, base, data, run)
    settings = LoraSettings(base.targets, recipe.config.rank, recipe.config.alpha)
    adapter = Adapter(base.tower, settings, seed=recipe.config.seed, start=start)
    progress = fit(base.tower, adapter, tasks, recipe.config, run, foreign=mixed_pool(base, data))
    guard = {name: probe(base, data, name) for name in recipe.guard}
    choice = choose_scale(base.tower, adapter, own, guard, recipe.scales)
    adapter.save(pack)
    _write(pack / "metrics.json", _summary(recipe, base, progress, choice))
    return choice


def probe(base: Base, data: Path, name: str, limit: int = _PROBE_QUERIES) -> Probe:
    """Load one split for measuring.

    Args:
        base: the frozen base.
        data: folder of the sets.
        name: ``set/split``.
        limit: number of queries at most.

    Returns:
        The probe.
    """
    folder, split = name.split("/")
    collection = read_collection(data / folder)
    labels = collection.splits[split]
    rows = np.random.default_rng(0).permutation(len(labels))[:limit]
    labels = labels.select(sorted(rows.tolist()))
    states = query_states(base.tower, labels.texts, base.states)
    return Probe(EncodedQueries(labels, states), base.cache.vectors(collection.documents))


def mixed_pool(base: Base, data: Path) -> dict[str, Floats]:
    """Sample documents of every kind, for negatives of the wrong kind.

    Args:
        base: the frozen base.
        data: folder of the sets.

    Returns:
        float32 (m, dim) by kind.
    """
    pool: dict[str, list[Floats]] = {}
    for name in FOREIGN:
        documents = read_collection(data / name).documents
        random = np.random.default_rng(0)
        rows = random.permutation(len(documents))[:_FOREIGN_DOCUMENTS]
        sample = [documents[row] for row in rows]
        pool.setdefault(sample[0].kind.value, []).append(base.cache.vectors(sample))
    return {kind: np.concatenate(vectors) for kind, vectors in pool.items()}


def _prepare(
    recipe: Recipe, base: Base, data: Path, run: Path
) -> tuple[list[Task], dict[str, Probe]]:
    tasks: list[Task] = []
    own: dict[str, Probe] = {}
    kept: dict[str, list[str]] = {}
    for name, weight in recipe.sets.items():
        read = read_train_captions if recipe.captions else read_collection
        collection = read(data / name)
        part = partition(
            collection, gate_share=GATE_SHARE, unseen_share=UNSEEN_SHARE.get(name, 0.0)
        )
        kept[name] = list(part.gate.ids)
        logger.info(
            "%s: %d train, %d gate, %d unseen",
            name,
            len(part.train),
            len(part.gate),
            len(part.unseen),
        )
        task = _task(collection, part, base, _LOOK_QUERIES, weight)
        full = _task(collection, part, base, _PROBE_QUERIES, weight)
        own |= {f"{name}/{split}": one for split, one in full.dev.items()}
        tasks.append(task)
    _write(run / "gate_slice.json", kept)
    return tasks, own


def _task(
    collection: Collection, part: Partition, base: Base, dev_queries: int, weight: float
) -> Task:
    return build_task(
        collection,
        part,
        base.tower,
        base.cache,
        states=base.states,
        dev_queries=dev_queries,
        weight=weight,
    )


def _summary(recipe: Recipe, base: Base, progress: Progress, choice: Choice) -> dict[str, object]:
    return {
        "name": recipe.name,
        "base": base.fingerprint,
        "start": recipe.start or "base",
        "sets": list(recipe.sets),
        "guard": list(recipe.guard),
        "scale": choice.scale,
        "steps": progress.best_step,
        "dev": {
            "base": as_record(choice.measured[0.0]),
            "expert": as_record(choice.measured[choice.scale]),
        },
        "dev_by_scale": {
            str(scale): {name: round(one.ndcg, 4) for name, one in metrics.items()}
            for scale, metrics in choice.measured.items()
        },
    }


def score_table(
    base: Base, data: Path, packs: Mapping[str, tuple[Path, float]], names: Iterable[str]
) -> dict[str, dict[str, float]]:
    """Measure experts on test splits.

    Args:
        base: the frozen base, without an adapter.
        data: folder of the sets.
        packs: adapter folder and strength of every expert.
        names: ``set/split``.

    Returns:
        nDCG@10 by split and expert, ``base`` among them.
    """
    probes = {name: probe(base, data, name, limit=1_000_000) for name in names}
    table: dict[str, dict[str, float]] = {
        name: {"base": one.ndcg} for name, one in measure(base.tower, probes).items()
    }
    adapter = Adapter(base.tower, LoraSettings(base.targets))
    for expert, (folder, scale) in packs.items():
        adapter.load(folder)
        adapter.scale(scale)
        for name, one in measure(base.tower, probes).items():
            table[name][expert] = one.ndcg
    adapter.remove(base.tower)
    return table


def _write(path: Path, content: object) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False, default=str)
    path.write_text(text + "\n", encoding="utf-8")
