"""The sets that the gate is built on and chosen by; none of them is a test split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..experts.training.recipes import (
    CODE,
    CODE_GUARD,
    IMAGE,
    INTENT,
    TEXT,
    TEXT_GUARD,
    TOOL,
    TOOL_GUARD,
)
from .candidates import Lessons
from .collect import GATE, Collector
from .noise import foreign_queries, random_strings
from .table import BASE, UtilityTable

TRAINING = (*TEXT, *CODE, *TOOL, *INTENT, *IMAGE)
GUARDS = (*TEXT_GUARD, *CODE_GUARD, *TOOL_GUARD)

_FEWEST = 20


@dataclass(frozen=True)
class Study:
    """Utilities of everything that may decide.

    Attributes:
        lessons: what gates are fitted on.
        dev: dev queries of the training sets.
        guards: dev queries of sets that nothing was trained on.
        noise: further queries that no expert can help with.
    """

    lessons: Lessons
    dev: tuple[UtilityTable, ...]
    guards: tuple[UtilityTable, ...]
    noise: UtilityTable


def collect_study(collector: Collector, limit: int) -> Study:
    """Measure the sets.

    Args:
        collector: measures splits.
        limit: queries of a set at most.

    Returns:
        The study.
    """
    gate = [collector.table(f"{name}/{GATE}", limit) for name in TRAINING]
    dev = [collector.table(f"{name}/dev", limit) for name in TRAINING if has_dev(collector, name)]
    guards = [collector.table(name, limit) for name in GUARDS]
    lessons = Lessons.of(
        [table for table in gate if len(table) >= _FEWEST], noise_table(collector, limit, seed=1)
    )
    return Study(lessons, tuple(dev), tuple(guards), noise_table(collector, limit, seed=2))


def has_dev(collector: Collector, name: str) -> bool:
    """Tell whether a set has dev queries.

    Args:
        collector: knows the sets.
        name: of the set.

    Returns:
        True when it has a split ``dev``, or ``val`` for pictures.
    """
    return "dev" in collector.sources.read(name, "dev").splits


def noise_table(collector: Collector, count: int, seed: int) -> UtilityTable:
    """Make queries that no expert can help with.

    Args:
        collector: knows the model.
        count: of foreign and of random queries each.
        seed: of the draw.

    Returns:
        A table whose utilities are all 0.
    """
    texts = (*foreign_queries(count, seed), *random_strings(count // 2, seed))
    encoded = collector.embedder.embed_queries(texts, expert=BASE)
    encoders = (BASE, *collector.experts)
    nothing = np.zeros((len(encoders), len(texts)), np.float32)
    return UtilityTable("noise", encoders, texts, encoded.states, nothing)
