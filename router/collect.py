"""Measuring encoders on labelled sets, for building and judging the gate."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..embedder import Embedder
from ..experts.training.data import LabelledQueries, in_gate_slice
from ..experts.training.evaluate import evaluate
from ..experts.training.sources import Sources
from ..experts.training.vectors import ModelEncoder, VectorCache
from ..models.arrays import Floats
from .table import BASE, UtilityTable

logger = logging.getLogger(__name__)

GATE = "gate"
"""Split of the training queries that no expert was trained on."""


@dataclass(frozen=True)
class Collector:
    """Measures splits, and keeps the results on disk.

    Attributes:
        embedder: the model with its experts.
        sources: where the sets lie.
        cache: folder of document vectors and tables.
        experts: names of the experts to measure.
    """

    embedder: Embedder
    sources: Sources
    cache: Path
    experts: tuple[str, ...]

    def table(self, name: str, limit: int) -> UtilityTable:
        """Measure one split in its own pool.

        Args:
            name: ``set/split``; the split ``gate`` holds training queries kept from the experts.
            limit: number of queries at most, drawn with a fixed seed.

        Returns:
            The table.
        """
        path = self.cache / "tables" / self._digest() / f"{name.replace('/', '.')}.{limit}.npz"
        if path.exists():
            return UtilityTable.read(path)
        labels, documents = self.labelled(name, limit)
        table = measure(self.embedder, name, labels, documents, self.experts)
        table.write(path)
        logger.info("%s: %d queries, mean nDCG@10 %s", name, len(table), _means(table))
        return table

    def kind(self, name: str) -> str:
        """Name the kind of a split's documents.

        Args:
            name: as for :meth:`table`.

        Returns:
            The kind of most of them.
        """
        folder, split = name.split("/")
        documents = self.sources.read(folder, "train" if split == GATE else split).documents
        return Counter(document.kind.value for document in documents).most_common(1)[0][0]

    def labelled(self, name: str, limit: int) -> tuple[LabelledQueries, Floats]:
        """Read one split.

        Args:
            name: as for :meth:`table`.
            limit: number of queries at most.

        Returns:
            The queries, and float32 (m, dim) the vectors of their pool.
        """
        folder, split = name.split("/")
        wanted = "train" if split == GATE else split
        collection = self.sources.read(folder, wanted)
        labels = collection.splits[wanted]
        rows = np.arange(len(labels))
        if split == GATE:
            rows = np.array([row for row in rows if in_gate_slice(labels.texts[row])], np.int64)
        rows = np.random.default_rng(0).permutation(rows)[:limit]
        vectors = VectorCache(self.cache / "documents", ModelEncoder(self.embedder.model))
        return labels.select(sorted(rows.tolist())), vectors.vectors(collection.documents)

    def _digest(self) -> str:
        packs = self.embedder.experts.state.packs
        digest = hashlib.sha256(self.embedder.model.manifest.fingerprint.encode())
        for name in self.experts:
            digest.update(f"{name} {packs[name].card.strength}".encode())
            for layer in sorted(packs[name].b):
                digest.update(packs[name].b[layer].tobytes())
        return digest.hexdigest()[:16]


def measure(
    embedder: Embedder,
    name: str,
    labels: LabelledQueries,
    documents: Floats,
    experts: Sequence[str],
) -> UtilityTable:
    """Encode queries with the base and with every expert, and score each.

    Args:
        embedder: the model with its experts.
        name: of the table.
        labels: the queries.
        documents: float32 (m, dim), their pool.
        experts: names.

    Returns:
        The table.
    """
    ndcg = []
    states = np.empty(0, np.float32)
    for encoder in (BASE, *experts):
        encoded = embedder.embed_queries(labels.texts, expert=encoder)
        ndcg.append(evaluate(encoded.vectors, documents, labels).ndcg)
        states = encoded.states if encoder == BASE else states
    return UtilityTable(
        name, (BASE, *experts), labels.texts, states, np.stack(ndcg).astype(np.float32)
    )


def _means(table: UtilityTable) -> str:
    means = table.ndcg.mean(axis=1)
    return ", ".join(
        f"{name} {value:.3f}" for name, value in zip(table.encoders, means, strict=True)
    )
