"""Train the composed expert: ``python -m omniembed.experts.training.vision.compose``."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerBase

from ....models.manifest import read_manifest
from ....models.model import BUNDLED
from ...composed import FILE_NAME as COMPOSED
from ...pack import ADAPTER_WEIGHTS
from ..cards import shipped_card, training_set
from .cache import text_vectors
from .combiner import Combiner
from .composed import ComposedTask, ComposedTraining, train_composed
from .composed_data import (
    COMPOSED_SETS,
    COMPOSED_TRAIN_SETS,
    ComposedQueries,
    ImageBank,
    composed_queries,
    image_bank,
)
from .composed_evaluate import baseline_vectors, composed_recall, composed_vectors
from .composed_model import ComposedConfig, ComposedEncoder
from .evaluate import Floats
from .head import ImageHead, load_head
from .report import Figures, markdown
from .sets import TRAIN_SETS, load_rows
from .towers import load_text_tower

logger = logging.getLogger(__name__)

VIEWS = ("whole",)
STRENGTHS = (0.8, 1.0)
AWAY = (0.0, 0.6, 1.0, 1.2, 1.6)
GUARD = "pacs"
"""Never trained on; its validation queries keep the choice from fitting the trained sets alone."""

GUARD_TOLERATED = 0.12
"""How far the guard's mean recall may lie below its best over the choices."""

Queries = Mapping[str, Mapping[str, ComposedQueries]]


@dataclass(frozen=True)
class Chosen:
    """What validation queries chose.

    Attributes:
        root: The image folder, which states the licences.
        strength: Of the adapter.
        figures: Validation recall by set.
    """

    root: Path
    strength: float
    figures: Figures


def _images(queries: Queries) -> list[str]:
    used: dict[str, None] = {}
    for found in queries.values():
        for item in found.values():
            used.update((path, None) for path in item.gallery)
            used.update((triplet.reference, None) for triplet in item.triplets)
    return list(used)


def composed_task(root: Path, queries: Queries, bank: ImageBank, head: ImageHead) -> ComposedTask:
    """Put together what the composed expert learns from.

    Args:
        root: The image folder.
        queries: Queries by split and set.
        bank: Their images.
        head: The image head.

    Returns:
        The task; its labels are those of training images only.
    """
    train = {name: queries["train"][name] for name in COMPOSED_TRAIN_SETS}
    inside = {path for item in train.values() for path in item.gallery}
    return ComposedTask(
        bank=bank,
        train=train,
        dev={name: queries["val"][name] for name in COMPOSED_TRAIN_SETS},
        labels={
            row.image: row.label
            for row in load_rows(root, TRAIN_SETS)
            if row.image in inside and row.label
        },
        direction=head.anchor.direction,
    )


def baseline_figures(
    bank: ImageBank, queries: Mapping[str, ComposedQueries], head: ImageHead, cache: Path
) -> dict[str, Figures]:
    """Recall of what needs no training.

    Args:
        bank: The images.
        queries: Queries by set.
        head: The image head.
        cache: Cache folder of the text vectors.

    Returns:
        Figures by baseline and set.
    """
    figures: dict[str, Figures] = {}
    direction = head.anchor.direction.numpy()
    for name, item in queries.items():
        texts = [triplet.modification for triplet in item.triplets]
        known = text_vectors(texts, cache)
        vectors = np.stack([known[text] for text in texts])
        vectors = vectors - (vectors @ direction)[:, None] * direction
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        rows = [bank.positions[triplet.reference] for triplet in item.triplets]
        images: Floats = bank.vectors[0, rows].numpy()
        for baseline, found in baseline_vectors(images, vectors).items():
            figures.setdefault(baseline, {})[name] = composed_recall(found, bank, item)
    return figures


def model_figures(
    model: ComposedEncoder | Combiner,
    tokenizer: PreTrainedTokenizerBase,
    bank: ImageBank,
    queries: Mapping[str, ComposedQueries],
) -> Figures:
    """Recall of a trained model.

    Args:
        model: The model.
        tokenizer: Tokenizer of the text tower.
        bank: The images.
        queries: Queries by set.

    Returns:
        Recall by set.
    """
    return {
        name: composed_recall(composed_vectors(model, tokenizer, bank, item.triplets), bank, item)
        for name, item in queries.items()
    }


def choose_on_dev(
    model: ComposedEncoder,
    tokenizer: PreTrainedTokenizerBase,
    bank: ImageBank,
    queries: Mapping[str, ComposedQueries],
) -> tuple[float, Figures]:
    """Choose how far queries move off their picture, and the strength of the adapter.

    The best on the trained sets among the choices that hold on the guard, a set whose changes
    leave nothing of the picture but its subject.

    Args:
        model: The trained expert; it keeps the choice.
        tokenizer: Tokenizer of the text tower.
        bank: The images.
        queries: Validation queries by set, the guard's among them.

    Returns:
        The strength, and the validation figures behind the choice.
    """
    found: dict[tuple[float, float], Figures] = {}
    for strength in STRENGTHS:
        model.scale(strength)
        for away in AWAY:
            model.residual.away.fill_(away)
            found[strength, away] = model_figures(model, tokenizer, bank, queries)
            logger.info("strength %.1f, away %.1f: %s", strength, away, found[strength, away])

    def worth(choice: tuple[float, float], sets: Collection[str]) -> float:
        return fmean(value for name in sets for value in found[choice][name].values())

    least = max(worth(choice, [GUARD]) for choice in found) - GUARD_TOLERATED
    held = [choice for choice in found if worth(choice, [GUARD]) >= least]
    best = max(held, key=lambda choice: worth(choice, COMPOSED_TRAIN_SETS))
    model.scale(best[0])
    model.residual.away.fill_(best[1])
    logger.info("chosen: strength %.1f, away %.1f", *best)
    return best[0], found[best]


def save_pack(
    model: ComposedEncoder, head: ImageHead, task: ComposedTask, chosen: Chosen, out: Path
) -> None:
    """Write the expert as a pack: adapter, the new parts beside it, and the card.

    Args:
        model: The trained expert.
        head: The image head that it reads.
        task: What it was trained on.
        chosen: The choice on validation queries, and where the sets lie.
        out: Folder of the pack.
    """
    model.tower.save_pretrained(str(out), safe_serialization=True)
    (out / "README.md").unlink(missing_ok=True)
    adapter = load_file(out / ADAPTER_WEIGHTS)
    half = {name: value.half().contiguous() for name, value in adapter.items()}
    save_file(half, out / ADAPTER_WEIGHTS, metadata={"format": "pt"})
    parts = {
        name: value.half().contiguous()
        for name, value in model.state_dict().items()
        if not name.startswith("tower.")
    }
    parts["direction"] = head.anchor.direction.half().contiguous()
    save_file(parts, out / COMPOSED)
    training = tuple(
        training_set(chosen.root / name, len(queries.triplets))
        for name, queries in task.train.items()
    )
    base = read_manifest(BUNDLED / "mini").fingerprint
    shipped_card("composed", base, chosen.strength, training, chosen.figures).write(out)


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the composed expert.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument(
        "--head", type=Path, required=True, help="image head: .safetensors or .onnx"
    )
    parser.add_argument("--out", type=Path, required=True, help="run folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, help="cache folder (default: OUT/cache)")
    parser.add_argument("--steps", type=int, default=ComposedTraining.steps)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the combiner and the expert, save the expert and all figures.

    Args:
        arguments: Command line; that of the process by default.
    """
    options = _arguments(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(options.threads)
    root: Path = options.data / "image"
    out: Path = options.out
    cache: Path = options.cache or out / "cache"
    out.mkdir(parents=True, exist_ok=True)
    shape = ComposedConfig()
    config = ComposedTraining(steps=options.steps, seed=options.seed)
    saved = {"views": VIEWS, "model": asdict(shape), **asdict(config)}
    (out / "config.json").write_text(json.dumps(saved, indent=2))

    head = load_head(options.head)
    queries = {
        split: {name: composed_queries(root, name, split) for name in COMPOSED_SETS}
        for split in ("train", "val", "test")
    }
    bank = image_bank(root, _images(queries), head, cache, VIEWS)
    task = composed_task(root, queries, bank, head)

    torch.manual_seed(options.seed)
    tower, tokenizer = load_text_tower()
    combiner = Combiner(tower)
    train_composed(task, replace(config, warmup_steps=0), combiner, tokenizer)
    expert = ComposedEncoder(load_text_tower()[0], shape)
    train_composed(task, config, expert, tokenizer)
    strength, chosen = choose_on_dev(expert, tokenizer, bank, queries["val"])
    save_pack(expert, head, task, Chosen(root, strength, chosen), out / "pack")
    for split in ("val", "test"):
        figures = baseline_figures(bank, queries[split], head, cache)
        figures["combiner"] = model_figures(combiner, tokenizer, bank, queries[split])
        figures["composed"] = model_figures(expert, tokenizer, bank, queries[split])
        (out / f"{split}.json").write_text(json.dumps(figures, indent=2))
        (out / f"{split}.md").write_text(markdown(figures) + "\n")
        logger.info("%s\n%s", split, markdown(figures))


if __name__ == "__main__":
    main()
