"""Training of the composed expert."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from .composed_data import (
    ComposedQueries,
    ImageBank,
    gallery_vectors,
    query_positions,
)
from .composed_model import (
    ComposedConfig,
    ComposedEncoder,
    Tokens,
)
from .evaluate import Floats, first_hits, recall_at
from .sets import Triplet
from .towers import load_text_tower

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ComposedTraining:
    """How the composed expert is trained.

    Attributes:
        model: Shape of the expert.
        warmup_steps: Steps in which the pseudo-words alone learn to give back the vector
            of their image.
        steps: Steps on triplets.
        batch_size: Queries of a step, all of one set.
        negatives: Random gallery images of a step.
        learning_rate: Peak of the one-cycle schedule.
        weight_decay: AdamW weight decay.
        temperature: Temperature of the contrastive loss.
        balance: Power of a set's size in the choice of the set.
        evaluate_every: Steps between evaluations on the validation split.
        seed: Seed of weights and batches.
    """

    model: ComposedConfig = field(default_factory=ComposedConfig)
    warmup_steps: int = 200
    steps: int = 600
    batch_size: int = 64
    negatives: int = 512
    learning_rate: float = 4e-4
    weight_decay: float = 0.05
    temperature: float = 0.05
    balance: float = 0.5
    evaluate_every: int = 150
    seed: int = 0


def tokenize(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> Tokens:
    """Tokenise modification texts.

    Args:
        tokenizer: Tokenizer of the text tower.
        texts: The texts.

    Returns:
        Padded tokens.
    """
    batch = tokenizer(list(texts), padding=True, truncation=True, max_length=64)
    return Tokens(torch.tensor(batch["input_ids"]), torch.tensor(batch["attention_mask"]))


def _encode(
    model: ComposedEncoder,
    bank: ImageBank,
    rows: Sequence[int],
    views: Tensor,
    tokens: Tokens,
) -> Tensor:
    index = torch.as_tensor(np.asarray(rows))
    with torch.autocast("cpu", torch.bfloat16):
        queries = model(bank.features[views, index].float(), bank.vectors[views, index], tokens)
    return cast("Tensor", queries.float())


@torch.inference_mode()
def composed_vectors(
    model: ComposedEncoder,
    tokenizer: PreTrainedTokenizerBase,
    bank: ImageBank,
    triplets: Sequence[Triplet],
) -> Floats:
    """Embed composed queries.

    Args:
        model: The expert.
        tokenizer: Tokenizer of the text tower.
        bank: The images.
        triplets: The queries.

    Returns:
        Unit vectors, float32 [queries, 384].
    """
    model.eval()
    parts = []
    for start in range(0, len(triplets), 64):
        chunk = triplets[start : start + 64]
        rows = torch.tensor([bank.positions[triplet.reference] for triplet in chunk])
        tokens = tokenize(tokenizer, [triplet.modification for triplet in chunk])
        parts.append(model(bank.features[0, rows].float(), bank.vectors[0, rows], tokens))
    vectors: Floats = torch.cat(parts).numpy()
    return vectors


def composed_recall(vectors: Floats, bank: ImageBank, queries: ComposedQueries) -> dict[str, float]:
    """Recall of composed queries, the reference left out of every ranking.

    Args:
        vectors: Query vectors, float32 [queries, 384].
        bank: The images.
        queries: The queries and their gallery.

    Returns:
        ``R@1`` and ``R@10``.
    """
    targets, references = query_positions(queries)
    scores = vectors @ gallery_vectors(bank, queries).T
    return recall_at(first_hits(scores, targets, references), (1, 10))


def _triplet_loss(
    model: ComposedEncoder,
    tokenizer: PreTrainedTokenizerBase,
    bank: ImageBank,
    queries: ComposedQueries,
    config: ComposedTraining,
    rng: np.random.Generator,
) -> Tensor:
    count = min(config.batch_size, len(queries.triplets))
    chosen = [queries.triplets[row] for row in rng.choice(len(queries.triplets), count, False)]
    texts = [rng.choice([item.modification, *item.paraphrases]) for item in chosen]
    paths = {rng.choice(item.targets): None for item in chosen}
    paths.update((item.reference, None) for item in chosen)
    paths.update((path, None) for path in rng.choice(queries.gallery, config.negatives))
    places = {path: place for place, path in enumerate(paths)}
    right = torch.zeros(count, len(places), dtype=torch.bool)
    own = torch.zeros(count, len(places), dtype=torch.bool)
    for row, item in enumerate(chosen):
        right[row, [places[path] for path in item.targets if path in places]] = True
        own[row, places[item.reference]] = True
    views = torch.as_tensor(rng.integers(len(bank.vectors), size=count))
    rows = [bank.positions[item.reference] for item in chosen]
    vectors = _encode(model, bank, rows, views, tokenize(tokenizer, texts))
    candidates = bank.vectors[0][[bank.positions[path] for path in paths]]
    # The reference is left out of the ranking, so it is no negative of its own query.
    scores = (vectors @ candidates.T / config.temperature).masked_fill(own, float("-inf"))
    found = torch.logsumexp(scores.masked_fill(~right, float("-inf")), 1)
    return (torch.logsumexp(scores, 1) - found).mean()


def _warmup_loss(
    model: ComposedEncoder,
    tokenizer: PreTrainedTokenizerBase,
    bank: ImageBank,
    config: ComposedTraining,
    rng: np.random.Generator,
) -> Tensor:
    rows = torch.as_tensor(rng.choice(bank.vectors.shape[1], 2 * config.batch_size, False))
    views = torch.as_tensor(rng.integers(len(bank.vectors), size=len(rows)))
    tokens = tokenize(tokenizer, [""] * len(rows))
    with torch.autocast("cpu", torch.bfloat16):
        prefix = model.pseudo_words(bank.features[views, rows].float(), bank.vectors[views, rows])
        found = model.encode(prefix, tokens)
    scores = found.float() @ bank.vectors[0, rows].T / config.temperature
    return nn.functional.cross_entropy(scores, torch.arange(len(rows)))


def train_composed(
    bank: ImageBank,
    train: Mapping[str, ComposedQueries],
    dev: Mapping[str, ComposedQueries],
    config: ComposedTraining,
) -> tuple[ComposedEncoder, PreTrainedTokenizerBase]:
    """Train the expert and keep the best state on the validation split.

    Args:
        bank: All images of the queries.
        train: Training queries by set.
        dev: Validation queries by set.
        config: How to train.

    Returns:
        The expert in evaluation mode, and the tokenizer.
    """
    torch.manual_seed(config.seed)
    rng = np.random.default_rng(config.seed)
    tower, tokenizer = load_text_tower()
    model = ComposedEncoder(tower, config.model).train()
    parameters = [item for item in model.parameters() if item.requires_grad]
    total = config.warmup_steps + config.steps
    optimizer = torch.optim.AdamW(
        parameters, config.learning_rate, weight_decay=config.weight_decay
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, config.learning_rate, total_steps=total, pct_start=0.1
    )
    used = sorted({path for queries in train.values() for path in queries.gallery})
    rows = [bank.positions[path] for path in used]
    known = ImageBank(
        {path: index for index, path in enumerate(used)},
        bank.features[:, rows],
        bank.vectors[:, rows],
    )
    names = list(train)
    sizes = np.array([len(train[name].triplets) ** config.balance for name in names])
    best, kept = -1.0, {}
    for step in range(1, total + 1):
        if step <= config.warmup_steps:
            loss = _warmup_loss(model, tokenizer, known, config, rng)
        else:
            name = names[rng.choice(len(names), p=sizes / sizes.sum())]
            loss = _triplet_loss(model, tokenizer, known, train[name], config, rng)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            logger.info("step %d of %d: loss %.3f", step, total, loss.item())
        if step > config.warmup_steps and (
            (step - config.warmup_steps) % config.evaluate_every == 0 or step == total
        ):
            figures = {}
            for name, queries in dev.items():
                vectors = composed_vectors(model, tokenizer, bank, queries.triplets)
                figures[name] = composed_recall(vectors, bank, queries)
            mean = float(np.mean([list(found.values()) for found in figures.values()]))
            logger.info("step %d: dev %s, mean %.4f", step, figures, mean)
            if mean > best:
                best, kept = (
                    mean,
                    {
                        key: value.clone()
                        for key, value in model.state_dict().items()
                        if "lora_" in key or not key.startswith("tower.")
                    },
                )
            model.train()
    model.load_state_dict(kept, strict=False)
    return model.eval(), tokenizer
