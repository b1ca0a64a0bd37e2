"""Routing in pools that mix sets: each set alone, a pool a kind, and one pool of all kinds.

python benchmarks/mixed_pools.py --data DATA --cache DIR [--limit 200]

In the pool of all kinds the share of the ten best that are of another kind than the query's own
documents is printed too; ``searched`` is the routed query with the kinds that ``kinds="auto"``
keeps to. Sets of one pool share documents that answer each other's queries without a label, so
figures are lower than in own pools for that reason alone; only differences count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from data import parser
from numpy.typing import NDArray
from suites import SUITE_A, SUITE_B, family

from omniembed.embedder import Embedder, EncodedQueries
from omniembed.experts.training.data import LabelledQueries
from omniembed.experts.training.evaluate import evaluate
from omniembed.experts.training.negatives import rank
from omniembed.experts.training.sources import Sources
from omniembed.models.arrays import Floats
from omniembed.models.model import Model
from omniembed.router.collect import Collector
from omniembed.types import Query

ENCODERS = ("base", "general", "auto")
DEPTH = 10


@dataclass(frozen=True)
class Asked:
    """One split, encoded.

    Attributes:
        name: ``set/split``.
        labels: its queries; relevant rows count from the start of its own documents.
        encoded: query vectors by encoder.
        allowed: kinds that a search keeps to, a query each; ``None`` for all.
    """

    name: str
    labels: LabelledQueries
    encoded: Mapping[str, EncodedQueries]
    allowed: Sequence[set[str] | None]


@dataclass(frozen=True)
class Pool:
    """Documents of several sets.

    Attributes:
        vectors: float32 (m, dim).
        kinds: kind of every document.
        starts: first row of every set.
    """

    vectors: Floats
    kinds: NDArray[np.str_]
    starts: Mapping[str, int]

    @classmethod
    def of(cls, documents: Mapping[str, Floats]) -> Pool:
        """Lay documents end to end.

        Args:
            documents: vectors by set.

        Returns:
            The pool.
        """
        starts, kinds, row = {}, [], 0
        for name, vectors in documents.items():
            starts[name] = row
            kinds += [family(name)] * len(vectors)
            row += len(vectors)
        return cls(np.concatenate(list(documents.values())), np.array(kinds), starts)

    def shifted(self, asked: Asked) -> LabelledQueries:
        """Move labels to where the set's documents lie.

        Args:
            asked: the split.

        Returns:
            Its queries in this pool.
        """
        start = self.starts[folder(asked.name)]
        moved = tuple(
            {row + start: grade for row, grade in one.items()} for one in asked.labels.relevant
        )
        return LabelledQueries(asked.labels.ids, asked.labels.texts, moved)

    def wrong(self, vectors: Floats, kind: str) -> float:
        """Share of the ten best that are of another kind.

        Args:
            vectors: float32 (n, dim), queries.
            kind: what they ask for.

        Returns:
            The share.
        """
        return fmean(
            float((self.kinds[best] != kind).mean())
            for _, best, _ in rank(vectors, self.vectors, DEPTH)
        )


def folder(name: str) -> str:
    """Name the set of a split.

    Args:
        name: ``set/split``.

    Returns:
        The set.
    """
    return name.split("/")[0]


def ask(collector: Collector, name: str, limit: int) -> tuple[Asked, Floats]:
    """Encode one split.

    Args:
        collector: knows the sets.
        name: ``set/split``.
        limit: queries at most.

    Returns:
        The queries, and the vectors of the set's documents.
    """
    labels, documents = collector.labelled(name, limit)
    embedder = collector.embedder
    encoded = {one: embedder.embed_queries(labels.texts, expert=one) for one in ENCODERS}
    routed = encoded["auto"]
    found = [
        embedder.query_encoder.kinds(Query(text=text), route, state)
        for text, route, state in zip(labels.texts, routed.routes, routed.states, strict=True)
    ]
    allowed = [None if one is None else {kind.value for kind in one} for one in found]
    return Asked(name, labels, encoded, allowed), documents


def searched(pool: Pool, asked: Asked, labels: LabelledQueries) -> tuple[float, float]:
    """Search the pool of all kinds as ``kinds="auto"`` does.

    Args:
        pool: of all kinds.
        asked: the split.
        labels: its queries in this pool.

    Returns:
        nDCG@10, and the share of the ten best that are of another kind.
    """
    groups: dict[frozenset[str] | None, list[int]] = {}
    for row, kinds in enumerate(asked.allowed):
        groups.setdefault(None if kinds is None else frozenset(kinds), []).append(row)
    ndcg, wrong = np.zeros(len(labels)), np.zeros(len(labels))
    vectors = asked.encoded["auto"].vectors
    for kinds, rows in groups.items():
        keep = np.arange(len(pool.vectors))
        if kinds is not None:
            keep = np.flatnonzero(np.isin(pool.kinds, sorted(kinds)))
        place = {int(row): at for at, row in enumerate(keep)}
        own = labels.select(rows)
        # A relevant document that was ruled out still counts: it gets a row that is never found.
        lost = len(keep)
        relevant = tuple(
            {place.get(row, lost + row): grade for row, grade in one.items()}
            for one in own.relevant
        )
        moved = LabelledQueries(own.ids, own.texts, relevant)
        documents = pool.vectors[keep]
        ndcg[rows] = evaluate(vectors[rows], documents, moved).ndcg
        for at, best, _ in rank(vectors[rows], documents, DEPTH):
            wrong[rows[at]] = float((pool.kinds[keep[best]] != family(asked.name)).mean())
    return float(ndcg.mean()), float(wrong.mean())


def print_pools(title: str, splits: Sequence[Asked], documents: Mapping[str, Floats]) -> None:
    """Print one suite.

    Args:
        title: of the suite.
        splits: the suite's queries.
        documents: vectors by set, of both suites.
    """
    print(f"\n## {title}\n\n| pool | base | general | routed | searched |\n|---" + "|---" * 4 + "|")
    families = {family(name) for name in documents}
    everything = Pool.of(documents)
    pools = {
        "own": {name: Pool.of({name: vectors}) for name, vectors in documents.items()},
        "family": {
            kind: Pool.of({n: v for n, v in documents.items() if family(n) == kind})
            for kind in families
        },
    }
    for label, of in pools.items():
        cells = []
        for encoder in ENCODERS:
            scores = []
            for one in splits:
                pool = of[folder(one.name) if label == "own" else family(one.name)]
                scores.append(
                    evaluate(
                        one.encoded[encoder].vectors, pool.vectors, pool.shifted(one)
                    ).ndcg.mean()
                )
            cells.append(f"{100 * fmean(scores):.2f}")
        print(f"| {label} | " + " | ".join(cells) + " | |", flush=True)
    ndcg: dict[str, list[float]] = {name: [] for name in (*ENCODERS, "searched")}
    wrong: dict[str, list[float]] = {name: [] for name in ndcg}
    kept: list[float] = []
    for one in splits:
        labels = everything.shifted(one)
        for encoder in ENCODERS:
            vectors = one.encoded[encoder].vectors
            ndcg[encoder].append(float(evaluate(vectors, everything.vectors, labels).ndcg.mean()))
            wrong[encoder].append(everything.wrong(vectors, family(one.name)))
        score, share = searched(everything, one, labels)
        ndcg["searched"].append(score)
        wrong["searched"].append(share)
        kept.append(fmean(kinds is None or family(one.name) in kinds for kinds in one.allowed))
    print("| all kinds | " + " | ".join(f"{100 * fmean(x):.2f}" for x in ndcg.values()) + " |")
    print("| wrong kind, % | " + " | ".join(f"{100 * fmean(x):.1f}" for x in wrong.values()) + " |")
    worst = int(np.argmin(kept))
    print(
        f"\nown kind kept for {100 * fmean(kept):.1f} % of the queries; least for "
        f"{splits[worst].name}, {100 * kept[worst]:.1f} %"
    )


def main() -> None:
    """Print everything."""
    options = parser(__doc__)
    options.add_argument("--cache", type=Path, required=True, help="document vectors")
    options.add_argument("--limit", type=int, default=200, help="queries of a split at most")
    options.add_argument("--model", default="mini")
    arguments = options.parse_args()
    sources = Sources(arguments.data / "text_code_tool", arguments.data / "image")
    embedder = Embedder(Model.load(arguments.model))
    collector = Collector(embedder, sources, arguments.cache, ())
    splits: dict[str, Asked] = {}
    documents: dict[str, Floats] = {}
    for name in (*SUITE_A, *SUITE_B):
        splits[name], documents[folder(name)] = ask(collector, name, arguments.limit)
    print(f"{sum(map(len, documents.values()))} documents of {len(documents)} sets")
    print_pools("suite A", [splits[name] for name in SUITE_A], documents)
    print_pools("suite B", [splits[name] for name in SUITE_B], documents)


if __name__ == "__main__":
    main()
