"""The training loop: one adapter, several sets, document vectors that never change."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ...errors import OmniEmbedError
from ...models.arrays import Floats
from .batches import Batch, CandidateConfig, make_batch, mine_task, query_rows, schedule
from .evaluate import as_record, mean_ndcg
from .lora import Adapter
from .losses import drift, info_nce, listwise_distillation
from .measure import measure
from .negatives import MiningConfig
from .tasks import Task
from .tower import QueryStates, TorchTower

logger = logging.getLogger(__name__)

CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True)
class TrainConfig:
    """Settings of one run.

    Attributes:
        steps: optimiser steps at most.
        batch_size: queries a step, all of one set.
        learning_rate: peak of the one-cycle schedule.
        warmup: share of the steps before the peak.
        weight_decay: of AdamW.
        temperature: of the contrastive loss.
        drift_weight: pull of the query vectors towards those of the base.
        distill_weight: weight of the teacher's ranking, where scores are given.
        sampling_exponent: sets are drawn in proportion to their size to this power.
        candidates: which documents a query is compared with.
        mining: how hard negatives are found.
        rank: width of the adapter.
        alpha: the update is multiplied by ``alpha / rank``.
        eval_every: steps between looks at dev.
        patience: looks without improvement before the run ends.
        dev_scale: strength of the adapter when looking at dev.
        look_queries: dev queries of every set that a look takes.
        seed: of weights, order and draws.
    """

    steps: int = 400
    batch_size: int = 64
    learning_rate: float = 4e-4
    warmup: float = 0.1
    weight_decay: float = 0.01
    temperature: float = 0.05
    drift_weight: float = 0.0
    distill_weight: float = 1.0
    sampling_exponent: float = 0.5
    candidates: CandidateConfig = field(default_factory=CandidateConfig)
    mining: MiningConfig = field(default_factory=MiningConfig)
    rank: int = 16
    alpha: int = 32
    eval_every: int = 50
    patience: int = 6
    dev_scale: float = 0.8
    look_queries: int = 200
    seed: int = 0


@dataclass
class Progress:
    """Where a run stands; what a checkpoint restores.

    Attributes:
        step: steps done.
        best: highest mean dev nDCG@10 so far.
        best_step: when it was reached; 0 for the start.
        best_state: adapter weights of that moment.
        history: loss and dev measures of every look.
    """

    step: int = 0
    best: float = -1.0
    best_step: int = 0
    best_state: dict[str, Tensor] = field(default_factory=dict)
    history: list[dict[str, object]] = field(default_factory=list)


def fit(
    tower: TorchTower,
    adapter: Adapter,
    tasks: Sequence[Task],
    config: TrainConfig,
    run: Path,
    *,
    foreign: Mapping[str, Floats] | None = None,
) -> Progress:
    """Train an adapter and leave its best weights, by dev, in place.

    A run that was interrupted resumes from ``run/checkpoint.pt``.

    Args:
        tower: carries the adapter.
        adapter: trained in place.
        tasks: the sets.
        config: settings.
        run: folder of the checkpoint and of ``history.json``.
        foreign: document vectors of a mixed pool, by kind.

    Returns:
        The course of the run.

    Raises:
        OmniEmbedError: when the loss is no longer a number.
    """
    mined = [mine_task(task, config.mining, config.candidates, foreign or {}) for task in tasks]
    optimizer = torch.optim.AdamW(
        adapter.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
    )
    cycle = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        config.learning_rate,
        total_steps=config.steps,
        pct_start=max(config.warmup, 2 / config.steps),
    )
    progress = _resume(run, adapter, optimizer, cycle)
    if progress.step == 0:
        _look(tower, adapter, tasks, config, progress, loss=float("nan"))
    order = schedule(tasks, config.steps, config.sampling_exponent, config.seed)
    lengths = [task.train.states.lengths() for task in tasks]
    rows = query_rows(order, lengths, config.batch_size, config.seed)
    losses: list[float] = []
    start, first = time.monotonic(), progress.step
    for batch_rows in islice(rows, first, None):
        index = int(order[progress.step])
        random = np.random.default_rng([config.seed, progress.step])
        batch = make_batch(tasks[index], mined[index], batch_rows, config.candidates, random)
        loss = _loss(tower, tasks[index].train.states, batch, config)
        losses.append(_update(loss, adapter, optimizer, cycle))
        progress.step += 1
        if progress.step % config.eval_every == 0 or progress.step == config.steps:
            _look(tower, adapter, tasks, config, progress, loss=float(np.mean(losses)))
            pace = (time.monotonic() - start) / (progress.step - first)
            logger.info("%.2f s a step", pace)
            losses.clear()
            _save(run, adapter, optimizer, cycle, progress)
            if progress.step - progress.best_step >= config.patience * config.eval_every:
                logger.info("no better since step %d: stopping", progress.best_step)
                break
    adapter.load_state(progress.best_state)
    return progress


def _loss(tower: TorchTower, states: QueryStates, batch: Batch, config: TrainConfig) -> Tensor:
    vectors = tower.upper(*states.batch(batch.rows))
    scores = vectors @ batch.candidates.T
    loss = info_nce(scores, batch.target, batch.ignored, config.temperature)
    if config.drift_weight:
        base = torch.from_numpy(states.base[batch.rows])
        loss = loss + config.drift_weight * drift(vectors, base)
    if batch.teacher is not None:
        ranking = listwise_distillation(scores, batch.teacher, config.temperature)
        loss = loss + config.distill_weight * ranking
    return loss


def _update(
    loss: Tensor,
    adapter: Adapter,
    optimizer: torch.optim.Optimizer,
    cycle: torch.optim.lr_scheduler.LRScheduler,
) -> float:
    value: float = loss.item()
    if not np.isfinite(value):
        raise OmniEmbedError(f"the loss became {value}; lower the learning rate")
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(adapter.parameters(), 1.0)
    optimizer.step()
    cycle.step()
    return value


def _look(
    tower: TorchTower,
    adapter: Adapter,
    tasks: Sequence[Task],
    config: TrainConfig,
    progress: Progress,
    *,
    loss: float,
) -> None:
    adapter.scale(config.dev_scale)
    probes = {f"{task.name}/{name}": probe for task in tasks for name, probe in task.dev.items()}
    metrics = measure(tower, probes, config.look_queries)
    adapter.scale(1.0)
    score = mean_ndcg(metrics)
    if score > progress.best or not progress.best_state:
        progress.best, progress.best_step = score, progress.step
        progress.best_state = adapter.state()
    progress.history.append({"step": progress.step, "loss": loss, "dev": as_record(metrics)})
    each = " ".join(f"{name} {one.ndcg:.3f}" for name, one in metrics.items())
    logger.info("step %d: loss %.3f, dev nDCG@10 %.4f (%s)", progress.step, loss, score, each)


def _save(
    run: Path,
    adapter: Adapter,
    optimizer: torch.optim.Optimizer,
    cycle: torch.optim.lr_scheduler.LRScheduler,
    progress: Progress,
) -> None:
    run.mkdir(parents=True, exist_ok=True)
    partial = run / f"{CHECKPOINT}.partial"
    content = {
        "adapter": adapter.state(),
        "optimizer": optimizer.state_dict(),
        "cycle": cycle.state_dict(),
        "progress": vars(progress),
    }
    torch.save(content, partial)
    partial.replace(run / CHECKPOINT)
    text = json.dumps(progress.history, indent=1)
    (run / "history.json").write_text(text + "\n", encoding="utf-8")


def _resume(
    run: Path,
    adapter: Adapter,
    optimizer: torch.optim.Optimizer,
    cycle: torch.optim.lr_scheduler.LRScheduler,
) -> Progress:
    if not (run / CHECKPOINT).exists():
        return Progress()
    content = torch.load(run / CHECKPOINT, weights_only=True)
    adapter.load_state(content["adapter"])
    optimizer.load_state_dict(content["optimizer"])
    cycle.load_state_dict(content["cycle"])
    progress = Progress(**content["progress"])
    logger.info("resuming at step %d", progress.step)
    return progress
