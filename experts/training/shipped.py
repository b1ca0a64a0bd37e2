"""From a recipe to a shipped adapter."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from torch import Tensor

from ...errors import SourceNotFoundError
from ...models.arrays import Floats
from .base import Base
from .cards import shipped_card, training_set
from .data import GATE_SHARE
from .evaluate import Metrics, as_record
from .loop import fit
from .lora import Adapter, LoraSettings, average
from .measure import measure
from .recipes import FOREIGN, UNSEEN_SHARE, Recipe
from .sources import Sources
from .strength import Choice, choose_scale
from .tasks import Probe, Task, build_task, partition, sentence_task

logger = logging.getLogger(__name__)

_PROBE_QUERIES = 1000
"""Queries of a dev split by which the strength is chosen."""

_SENTENCES = 3000
"""Passages of a set that are also looked for by a sentence of theirs."""


def train_recipe(recipe: Recipe, base: Base, sources: Sources, out: Path) -> Choice:
    """Train one shipped expert and write its adapter.

    Writes ``out/packs/NAME`` (adapter and card) and ``out/runs/NAME`` (configuration, history,
    checkpoint, dev measures by strength, and the queries kept for the gate).

    Args:
        recipe: what to train.
        base: the frozen base.
        sources: the sets.
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
    tasks, own = _prepare(recipe, base, sources, run)
    adapter, steps = _fit_seeds(recipe, base, tasks, run, start, sources.mixed_pool(base, FOREIGN))
    guard = {name: sources.probe(base, name, _PROBE_QUERIES) for name in recipe.guard}
    choice = choose_scale(base.tower, adapter, own, guard, recipe.scales, recipe.tolerated)
    adapter.save(pack)
    _write(run / "metrics.json", _summary(recipe, base, steps, choice))
    training = tuple(
        training_set(sources.folder(task.name), len(task.train.labels))
        for task in tasks
        if task.name in recipe.sets
    )
    metrics = {
        split: {"base nDCG@10": round(base_score.ndcg, 4), "nDCG@10": round(own_score.ndcg, 4)}
        for (split, base_score), own_score in zip(
            choice.measured[0.0].items(), choice.measured[choice.scale].values(), strict=True
        )
    }
    shipped_card(recipe.name, base.fingerprint, choice.scale, training, metrics).write(pack)
    return choice


def score_packs(
    base: Base, sources: Sources, packs: Mapping[str, tuple[Path, float]], names: Iterable[str]
) -> dict[str, dict[str, Metrics]]:
    """Measure experts, each on the same splits.

    Args:
        base: the frozen base, without an adapter.
        sources: the sets.
        packs: adapter folder and strength of every expert.
        names: ``set/split``.

    Returns:
        Metrics by expert and split, ``base`` among the experts.
    """
    probes = {name: sources.probe(base, name, limit=1_000_000) for name in names}
    scores = {"base": measure(base.tower, probes)}
    for expert, (folder, scale) in packs.items():
        adapter = Adapter(base.tower, LoraSettings.read(folder), start=folder)
        adapter.scale(scale)
        scores[expert] = measure(base.tower, probes)
        adapter.remove(base.tower)
    return scores


def _prepare(
    recipe: Recipe, base: Base, sources: Sources, run: Path
) -> tuple[list[Task], dict[str, Probe]]:
    tasks: list[Task] = []
    own: dict[str, Probe] = {}
    kept: dict[str, list[str]] = {}
    for name, weight in recipe.sets.items():
        collection = sources.read(name, "train")
        share = UNSEEN_SHARE.get(name, 0.0)
        part = partition(collection, gate_share=GATE_SHARE, unseen_share=share)
        kept[name] = list(part.gate.ids)
        sizes = (len(part.train), len(part.gate), len(part.unseen))
        logger.info("%s: %d train, %d gate, %d unseen queries", name, *sizes)
        dev = sources.dev(base, name, _PROBE_QUERIES)
        task = build_task(collection, part, base, dev=dev, weight=weight)
        own |= {f"{name}/{split}": one for split, one in task.dev.items()}
        tasks.append(task)
        if name in recipe.sentences:
            tasks.append(sentence_task(task, collection, base, limit=_SENTENCES))
    _write(run / "gate_slice.json", kept)
    return tasks, own


def _fit_seeds(
    recipe: Recipe,
    base: Base,
    tasks: list[Task],
    run: Path,
    start: Path | None,
    foreign: Mapping[str, Floats],
) -> tuple[Adapter, list[int]]:
    """Run every seed; return the average on the tower, and the best step of each run."""
    settings = LoraSettings(base.targets, recipe.config.rank, recipe.config.alpha)
    states: list[dict[str, Tensor]] = []
    steps: list[int] = []
    for seed in recipe.seeds:
        config = replace(recipe.config, seed=seed)
        adapter = Adapter(base.tower, settings, seed=seed, start=start)
        folder = run if len(recipe.seeds) == 1 else run / f"seed-{seed}"
        progress = fit(base.tower, adapter, tasks, config, folder, foreign=foreign)
        states.append(adapter.state())
        steps.append(progress.best_step)
        adapter.remove(base.tower)
    adapter = Adapter(base.tower, settings, start=start)
    adapter.load_state(states[0] if len(states) == 1 else average(states, settings.rank))
    return adapter, steps


def _summary(recipe: Recipe, base: Base, steps: list[int], choice: Choice) -> dict[str, object]:
    return {
        "name": recipe.name,
        "base": base.fingerprint,
        "start": recipe.start or "base",
        "sets": list(recipe.sets),
        "guard": list(recipe.guard),
        "scale": choice.scale,
        "steps": steps,
        "dev": {
            "base": as_record(choice.measured[0.0]),
            "expert": as_record(choice.measured[choice.scale]),
        },
        "dev_by_scale": {
            str(scale): {name: round(one.ndcg, 4) for name, one in metrics.items()}
            for scale, metrics in choice.measured.items()
        },
    }


def _write(path: Path, content: object) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False, default=str)
    path.write_text(text + "\n", encoding="utf-8")
