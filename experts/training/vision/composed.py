"""Training of the composed expert."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from .combiner import Combiner
from .composed_data import ComposedQueries, ImageBank
from .composed_evaluate import composed_recall, composed_vectors
from .composed_lessons import Lessons
from .composed_model import ComposedEncoder

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ComposedTraining:
    """How the composed expert is trained.

    Attributes:
        warmup_steps: Steps in which the pseudo-words alone learn to give back the vector
            of their image.
        steps: Steps on triplets and styles.
        style_share: Share of the steps that are on styles.
        batch_size: Queries of a step, all of one set.
        negatives: Random gallery images of a step.
        style_negatives: Random images of a step on styles.
        learning_rate: Peak of the one-cycle schedule.
        weight_decay: AdamW weight decay.
        temperature: Temperature of the contrastive losses.
        balance: Power of a set's size in the choice of the set.
        average: Decay of the running mean of the weights, which is what is kept.
        evaluate_every: Steps between evaluations on the validation split.
        seed: Seed of weights and batches.
    """

    warmup_steps: int = 150
    steps: int = 750
    style_share: float = 0.3
    batch_size: int = 64
    negatives: int = 512
    style_negatives: int = 192
    learning_rate: float = 4e-4
    weight_decay: float = 0.05
    temperature: float = 0.05
    balance: float = 0.5
    average: float = 0.99
    evaluate_every: int = 150
    seed: int = 0


@dataclass(frozen=True)
class ComposedTask:
    """What the composed expert learns from.

    Attributes:
        bank: All images of the queries.
        train: Training queries by set.
        dev: Validation queries by set.
        labels: Name of the thing shown, by path, for training images that have one.
        direction: Mean direction of captions, which image vectors lack.
    """

    bank: ImageBank
    train: Mapping[str, ComposedQueries]
    dev: Mapping[str, ComposedQueries]
    labels: Mapping[str, str]
    direction: Tensor

    def training_bank(self) -> ImageBank:
        """Restrict the images to those that may be trained on."""
        used = sorted({path for queries in self.train.values() for path in queries.gallery})
        rows = [self.bank.positions[path] for path in used]
        return ImageBank(
            {path: index for index, path in enumerate(used)},
            self.bank.features[:, rows],
            self.bank.vectors[:, rows],
        )


def _dev_mean(
    model: ComposedEncoder | Combiner, tokenizer: PreTrainedTokenizerBase, task: ComposedTask
) -> float:
    """Mean of R@1 and R@10 over the validation sets."""
    means = []
    for name, queries in task.dev.items():
        vectors = composed_vectors(model, tokenizer, task.bank, queries.triplets)
        figures = composed_recall(vectors, task.bank, queries)
        logger.info("dev %s: %s", name, {key: round(value, 3) for key, value in figures.items()})
        means.append(np.mean(list(figures.values())))
    return float(np.mean(means))


class _Average:
    """Running mean of the trained weights."""

    def __init__(self, model: ComposedEncoder | Combiner, decay: float) -> None:
        self.parameters = {
            name: item for name, item in model.named_parameters() if item.requires_grad
        }
        self.mean = {name: item.detach().clone() for name, item in self.parameters.items()}
        self.decay = decay

    @torch.no_grad()
    def update(self) -> None:
        for name, item in self.parameters.items():
            self.mean[name].lerp_(item, 1 - self.decay)

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Put weights into the model and return those that were there."""
        before = {name: item.detach().clone() for name, item in self.parameters.items()}
        for name, item in self.parameters.items():
            item.copy_(weights[name])
        return before


def train_composed(
    task: ComposedTask,
    config: ComposedTraining,
    model: ComposedEncoder | Combiner,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Train a model of composed queries; it keeps its best averaged weights.

    Args:
        task: What to learn from.
        config: How to train.
        model: The model, left in evaluation mode.
        tokenizer: Tokenizer of the text tower.
    """
    rng = np.random.default_rng(config.seed)
    lessons = Lessons(
        model=model,
        tokenizer=tokenizer,
        bank=task.training_bank(),
        labels=task.labels,
        direction=task.direction,
        batch_size=config.batch_size,
        negatives=config.negatives,
        style_negatives=config.style_negatives,
        temperature=config.temperature,
        rng=rng,
    )
    average = _Average(model, config.average)
    total = config.warmup_steps + config.steps
    optimizer = torch.optim.AdamW(
        average.parameters.values(), config.learning_rate, weight_decay=config.weight_decay
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, config.learning_rate, total_steps=total, pct_start=0.1
    )
    names = list(task.train)
    sizes = np.array([len(task.train[name].triplets) ** config.balance for name in names])
    best, kept = -1.0, average.mean
    for step in range(1, total + 1):
        model.train()
        if step <= config.warmup_steps:
            loss = lessons.own_vector()
        elif rng.random() < config.style_share:
            loss = lessons.styles()
        else:
            name = names[rng.choice(len(names), p=sizes / sizes.sum())]
            loss = lessons.triplets(task.train[name])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(list(average.parameters.values()), 1.0)
        optimizer.step()
        schedule.step()
        average.update()
        if step % 50 == 0:
            logger.info("step %d of %d: loss %.3f", step, total, loss.item())
        trained = step - config.warmup_steps
        if trained > 0 and (trained % config.evaluate_every == 0 or step == total):
            before = average.load(average.mean)
            mean = _dev_mean(model, tokenizer, task)
            if mean > best:
                best = mean
                kept = {name: item.clone() for name, item in average.mean.items()}
            average.load(before)
    average.load(kept)
    model.eval()
