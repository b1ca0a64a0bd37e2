"""Training of the image projection against the frozen text space."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from .batches import (
    Batch,
    ImageTable,
    draw_batch,
    draw_photos,
    set_shares,
)
from .classes import remove_direction
from .head import HeadConfig, ImageHead
from .losses import (
    anchor_divergence,
    contrastive,
    same_caption,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class MemberConfig:
    """How one head is trained.

    Attributes:
        head: Shape of the head.
        steps: Number of steps.
        batch_size: Images of a step.
        learning_rate: Peak of the one-cycle schedule.
        weight_decay: AdamW weight decay.
        temperature: Temperature of the contrastive loss.
        mix: Parameter of the Beta distribution from which the shares of two mixed images
            are drawn.
        balance: Power of a set's size in its share of a batch.
        contrastive_weight: Weight of the contrastive loss.
        teacher_weight: Weight of the distance to the teacher's vectors.
        anchor_weight: Weight of the class-posterior anchor on photographs.
        anchor_temperature: Temperature of the class posteriors.
        anchor_photos: Photographs from every set that has some, a step.
    """

    head: HeadConfig = field(default_factory=HeadConfig)
    steps: int = 1000
    batch_size: int = 512
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    temperature: float = 0.05
    mix: float = 0.5
    balance: float = 0.5
    contrastive_weight: float = 1.0
    teacher_weight: float = 0.0
    anchor_weight: float = 0.2
    anchor_temperature: float = 0.05
    anchor_photos: int = 48


# The teacher's vectors are the regulariser, so the student needs little dropout.
STUDENT = MemberConfig(
    head=HeadConfig(dropout=0.1, input_dropout=0.1),
    mix=1.0,
    contrastive_weight=0.3,
    teacher_weight=10.0,
)


@dataclass(frozen=True)
class ProjectionConfig:
    """How the projection is trained.

    Attributes:
        teachers: Number of heads that are trained first; 0 trains one head only.
        teacher: How each of them is trained.
        student: How a head that learns from them is trained.
        students: Number of those; their unit vectors are averaged.
        seed: Seed of the first head; the next ones count up from it.
    """

    teachers: int = 4
    teacher: MemberConfig = field(default_factory=MemberConfig)
    student: MemberConfig = STUDENT
    students: int = 2
    seed: int = 0


@dataclass(frozen=True)
class ProjectionTask:
    """What the projection learns from.

    Attributes:
        names: Unit vectors of the class names, [1000, 384].
        tables: The training sets.
        texts: Vectors of all captions by caption id, [captions, 384].
    """

    names: Tensor
    tables: Mapping[str, ImageTable]
    texts: Tensor


def _forward(head: ImageHead, features: Tensor, logits: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return cast("Tensor", head(features, logits).float())


def _batch_loss(
    head: ImageHead,
    teacher: ImageHead | None,
    batch: Batch,
    texts: Tensor,
    config: MemberConfig,
    rng: np.random.Generator,
) -> Tensor:
    """Contrastive and distillation loss on mixtures of two images each."""
    share = float(rng.beta(config.mix, config.mix))
    order = torch.as_tensor(rng.permutation(len(batch.features)))
    features = share * batch.features + (1 - share) * batch.features[order]
    logits = share * batch.logits + (1 - share) * batch.logits[order]
    images = _forward(head, features, logits)
    wanted, same = texts[batch.drawn], same_caption(batch.carried, batch.drawn)
    first = contrastive(images, wanted, same, config.temperature)
    second = contrastive(images, wanted[order], same[order][:, order], config.temperature)
    loss = config.contrastive_weight * (share * first + (1 - share) * second)
    if teacher is not None:
        with torch.no_grad():
            taught = _forward(teacher, features, logits)
        loss = loss + config.teacher_weight * (1 - (images * taught).sum(-1)).mean()
    return loss


def train_member(
    task: ProjectionTask, config: MemberConfig, seed: int, teacher: ImageHead | None = None
) -> ImageHead:
    """Train a head with one member.

    Args:
        task: What to learn from.
        config: How to train.
        seed: Seed of the weights and of the batches.
        teacher: A head whose vectors the new one is drawn to.

    Returns:
        The head, in evaluation mode.
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    head = ImageHead(config.head, task.names)
    head.train()
    texts = nn.functional.normalize(remove_direction(task.texts, head.anchor.direction), dim=-1)
    optimizer = torch.optim.AdamW(
        head.parameters(), config.learning_rate, weight_decay=config.weight_decay
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, config.learning_rate, total_steps=config.steps, pct_start=0.1
    )
    shares = set_shares(task.tables, config.balance)
    for step in range(1, config.steps + 1):
        batch = draw_batch(task.tables, shares, config.batch_size, rng)
        loss = _batch_loss(head, teacher, batch, texts, config, rng)
        features, logits = draw_photos(task.tables, config.anchor_photos, rng)
        vectors = _forward(head, features, logits)
        loss = loss + config.anchor_weight * anchor_divergence(
            head.anchor, logits, vectors, config.anchor_temperature
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            logger.info("seed %d, step %d of %d: loss %.3f", seed, step, config.steps, loss.item())
    head.eval()
    return head


def join_members(heads: Sequence[ImageHead], names: Tensor) -> ImageHead:
    """Put separately trained members into one head.

    Args:
        heads: Heads of the same shape, with one member each.
        names: Unit vectors of the class names.

    Returns:
        The head, in evaluation mode.
    """
    joint = ImageHead(replace(heads[0].config, members=len(heads)), names)
    joint.members = nn.ModuleList(head.members[0] for head in heads)
    joint.eval()
    return joint


def train_teacher(task: ProjectionTask, config: ProjectionConfig) -> ImageHead:
    """Train heads apart and join them.

    Args:
        task: What to learn from.
        config: How to train.

    Returns:
        One head with a member for each.
    """
    heads = [
        train_member(task, config.teacher, config.seed + index) for index in range(config.teachers)
    ]
    return join_members(heads, task.names)


def train_projection(
    task: ProjectionTask, config: ProjectionConfig, teacher: ImageHead | None
) -> ImageHead:
    """Train the head to deploy.

    Args:
        task: What to learn from.
        config: How to train.
        teacher: What the head learns from besides captions; None trains one head without.

    Returns:
        The head.
    """
    if teacher is None:
        return train_member(task, config.teacher, config.seed)
    first = config.seed + config.teachers
    heads = [
        train_member(task, config.student, first + index, teacher)
        for index in range(config.students)
    ]
    return join_members(heads, task.names)
