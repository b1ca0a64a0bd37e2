"""From a user's pairs to a pack: training, card, pilots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import MissingExtraError, NotBetterError
from ..models.model import Model
from ..types import Kind
from .card import ExpertCard, TrainingSet
from .pilots import Pilots

if TYPE_CHECKING:
    from .training.user import TrainReport, UserConfig

_PILOTS = 8
_ROUNDS = 25


def train_pack(
    model: Model,
    name: str,
    pairs: Path,
    out: Path,
    *,
    purpose: str,
    keep_anyway: bool,
    config: UserConfig | None,
) -> TrainReport:
    """Train an expert and write its pack.

    Args:
        model: the base.
        name: of the expert.
        pairs: the jsonl file.
        out: folder of the pack; the run lies in ``out/run``.
        purpose: one sentence; made from the name when empty.
        keep_anyway: write the pack even when the expert does not beat the base.
        config: settings of the run.

    Returns:
        The report.

    Raises:
        MissingExtraError: when torch or peft is not installed.
        NotBetterError: when the expert does not beat the base; the run stays in ``out/run``.
    """
    try:
        from .training.base import load_base
        from .training.pairs import read_pairs
        from .training.user import UserConfig, train_expert
    except ImportError as error:
        raise MissingExtraError("training an expert", "train") from error
    base = load_base(model, cache=out / "cache")
    report = train_expert(name, pairs=pairs, out=out, base=base, config=config or UserConfig())
    if not report.better_than_base and not keep_anyway:
        raise NotBetterError(
            f"expert {name!r} reaches nDCG@10 {report.own.ndcg:.4f} on {report.own.queries} "
            f"queries for held-out documents; the base reaches {report.base.ndcg:.4f}. It was not "
            f"added. The run is in {out}: give more or cleaner pairs, or keep it anyway"
        )
    documents = read_pairs(pairs).documents
    card = ExpertCard(
        name=name,
        purpose=purpose or f"Trained on {pairs.name}.",
        base=model.manifest.fingerprint,
        kinds=tuple(sorted({one.kind for one in documents}, key=list(Kind).index)),
        strength=report.scale,
        training=(TrainingSet(pairs.name, "of the user", report.trained_on),),
        metrics={"held-out documents": report.figures()},
    )
    card.write(out)
    pilots_of(model, report.gate_queries).write(out)
    return report


def pilots_of(model: Model, queries: tuple[str, ...]) -> Pilots:
    """Summarise queries by a few centroids of their states (spherical k-means).

    Args:
        model: the base.
        queries: queries that the expert was not trained on.

    Returns:
        The pilots; none for no queries.
    """
    if not queries:
        return Pilots.none(model.manifest.gate_dim)
    states = model.text.encode(model.text.tokenizer.encode(list(queries))).states
    random = np.random.default_rng(0)
    count = min(_PILOTS, len(queries))
    centroids = states[random.choice(len(states), count, replace=False)]
    for _ in range(_ROUNDS):
        owner = (states @ centroids.T).argmax(axis=1)
        means = [states[owner == row].mean(axis=0) for row in range(count) if (owner == row).any()]
        centroids = np.stack(means)
        centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
        count = len(centroids)
    examples = tuple(queries[row] for row in (states @ centroids.T).argmax(axis=0))
    return Pilots(centroids, ("own pairs",) * count, examples)
