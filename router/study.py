"""The sets that the gate is built on and chosen by; none of them is a test split."""

from __future__ import annotations

from collections.abc import Mapping
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
from .kinds import UNKNOWN
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
        noise: further queries that no expert can help with, a table a sort.
        kinds: kind of the documents of every table, by its name; unknown for intents.
    """

    lessons: Lessons
    dev: tuple[UtilityTable, ...]
    guards: tuple[UtilityTable, ...]
    noise: tuple[UtilityTable, ...]
    kinds: Mapping[str, str]


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
        [table for table in gate if len(table) >= _FEWEST], noise_tables(collector, limit, seed=1)
    )
    # What people ask of an assistant, a help page answers as well: it must not be hidden.
    kinds = {
        one.name: UNKNOWN if one.name.split("/")[0] in INTENT else collector.kind(one.name)
        for one in (*gate, *dev, *guards)
    }
    noise = noise_tables(collector, limit, seed=2)
    return Study(lessons, tuple(dev), tuple(guards), noise, kinds)


def has_dev(collector: Collector, name: str) -> bool:
    """Tell whether a set has dev queries.

    Args:
        collector: knows the sets.
        name: of the set.

    Returns:
        True when it has a split ``dev``, or ``val`` for pictures.
    """
    return "dev" in collector.sources.read(name, "dev").splits


def noise_tables(collector: Collector, count: int, seed: int) -> tuple[UtilityTable, ...]:
    """Make queries that no expert can help with.

    Args:
        collector: knows the model.
        count: of every sort.
        seed: of the draw.

    Returns:
        Tables of foreign queries and of random strings, whose utilities are all 0.
    """
    sorts = {"foreign": foreign_queries(count, seed), "random": random_strings(count, seed)}
    encoders = (BASE, *collector.experts)
    found = []
    for name, texts in sorts.items():
        encoded = collector.embedder.embed_queries(texts, expert=BASE)
        nothing = np.zeros((len(encoders), len(texts)), np.float32)
        found.append(UtilityTable(name, encoders, tuple(texts), encoded.states, nothing))
    return tuple(found)
