"""Which kinds of documents a query asks for, told from the state that the gate sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..models.arrays import Floats
from .learned import fit_classes
from .library import unit
from .table import UtilityTable

UNKNOWN = "unknown"
"""Class of queries that tell no kind: random characters, and requests that any kind may answer."""


@dataclass(frozen=True)
class KindClassifier:
    """Linear in the centred state, with a softmax.

    Experts cannot stand in for it: the best expert of a query often aims at another kind of
    document, because adapters learn much that serves all kinds.

    Attributes:
        center: float32 (gate_dim,).
        weights: by class, float32 (gate_dim + 1,), the last value is the bias.
    """

    center: Floats
    weights: Mapping[str, Floats]

    def probabilities(self, states: Floats) -> Floats:
        """Rate every class for every query.

        Args:
            states: float32 (n, gate_dim), unit norm.

        Returns:
            float32 (n, classes), rows add up to 1.
        """
        stacked = np.stack(list(self.weights.values()))
        logits = unit(states - self.center) @ stacked[:, :-1].T + stacked[:, -1]
        mass = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(mass / mass.sum(axis=1, keepdims=True), np.float32)

    def likely(self, states: Floats, cover: float) -> list[set[str] | None]:
        """List the fewest kinds that are almost surely all that a query asks for.

        Args:
            states: float32 (n, gate_dim), unit norm.
            cover: probability that the kinds of a query must add up to.

        Returns:
            A set a query; ``None`` where nothing can be ruled out.
        """
        names = list(self.weights)
        found: list[set[str] | None] = []
        for row in self.probabilities(states):
            order = np.argsort(-row, kind="stable")
            count = int((np.cumsum(row[order]) < cover).sum()) + 1
            kinds = {names[place] for place in order[:count]}
            found.append(None if UNKNOWN in kinds or count >= len(names) - 1 else kinds)
        return found


def fit_kinds(
    tables: Sequence[UtilityTable],
    kinds: Sequence[str],
    noise: Sequence[UtilityTable],
    center: Floats,
    *,
    penalty: float = 0.1,
) -> KindClassifier:
    """Fit on queries whose kind is that of the documents they were asked of.

    Args:
        tables: one a set.
        kinds: kind of the documents of every set; :data:`UNKNOWN` for queries that any kind may
            answer.
        noise: queries that ask for nothing.
        center: float32 (gate_dim,).
        penalty: of the squared weights.

    Returns:
        The classifier. Kinds weigh the same, and so do the sets of a kind.
    """
    names = [*sorted(set(kinds) - {UNKNOWN}), UNKNOWN]
    groups = [*zip(tables, kinds, strict=True), *((one, UNKNOWN) for one in noise)]
    states, wanted, weights = [], [], []
    for table, kind in groups:
        alike = sum(other == kind for _, other in groups)
        states.append(unit(table.states - center))
        wanted.append(np.full(len(table), names.index(kind)))
        weights.append(np.full(len(table), 1.0 / (alike * len(table))))
    share = np.concatenate(weights)
    share = share / share.mean()
    fitted = fit_classes(
        np.concatenate(states), np.concatenate(wanted), len(names), share, penalty
    ).astype(np.float32)
    return KindClassifier(center, dict(zip(names, fitted, strict=True)))


def kept(
    classifier: KindClassifier,
    tables: Sequence[UtilityTable],
    kinds: Sequence[str],
    cover: float,
) -> tuple[float, float]:
    """Measure what a cover rules out.

    Args:
        classifier: the classifier.
        tables: one a set.
        kinds: kind of the documents of every set.
        cover: see :meth:`KindClassifier.likely`.

    Returns:
        Share of queries whose own kind stays, in the mean over the sets; and the mean share of
        kinds that are ruled out.
    """
    stays, ruled = [], []
    total = len(classifier.weights) - 1
    for table, kind in zip(tables, kinds, strict=True):
        likely = classifier.likely(table.states, cover)
        stays.append(np.mean([one is None or kind in one for one in likely]))
        ruled.append(np.mean([0.0 if one is None else 1 - len(one) / total for one in likely]))
    return float(np.mean(stays)), float(np.mean(ruled))
