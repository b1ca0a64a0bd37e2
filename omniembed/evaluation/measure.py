"""Every encoder on one set: measures of every query, and what the gate did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..embedder import Embedder
from ..experts.training.data import LabelledQueries
from ..experts.training.negatives import rank
from ..models.arrays import Floats
from ..types import Route

BASE, ROUTED = "base", "routed"
DEPTH = 10
"""Depth of the rankings, of nDCG@10 and Recall@10."""

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class SetResult:
    """One set, query by query.

    Attributes:
        name: of the set.
        ndcg: float64 (n,) nDCG@10 by encoder: base, every expert, and routed.
        recall: float64 (n,) Recall@10 by encoder.
        chance: float64 (n,) nDCG@10 of the best of as many chance encoders; see
            :func:`chance_encoders`.
        routes: of the routed queries.
    """

    name: str
    ndcg: Mapping[str, Doubles]
    recall: Mapping[str, Doubles]
    chance: Doubles
    routes: Sequence[Route]

    def __len__(self) -> int:
        return len(self.routes)

    @property
    def experts(self) -> list[str]:
        """Names of the experts."""
        return [name for name in self.ndcg if name not in {BASE, ROUTED}]

    @property
    def chosen(self) -> Doubles:
        """What the encoder that the gate chose scores at its full strength, (n,)."""
        columns = [self.ndcg[route.expert][row] for row, route in enumerate(self.routes)]
        return np.array(columns, np.float64)

    @property
    def best(self) -> Doubles:
        """What the best encoder of every query scores, (n,): the instance oracle."""
        best: Doubles = np.max([self.ndcg[name] for name in (BASE, *self.experts)], axis=0)
        return best


def measure_set(
    embedder: Embedder, name: str, queries: LabelledQueries, documents: Floats, *, seed: int = 0
) -> SetResult:
    """Encode queries with the base, every expert, and the gate's choice, and judge each.

    Experts for composed queries alone take no part: the queries here are texts.

    Args:
        embedder: the model and its experts.
        name: of the set.
        queries: the n queries.
        documents: float32 (m, dim), unit norm, the pool.
        seed: of the chance encoders.

    Returns:
        The result.
    """
    packs = embedder.experts.state.packs
    experts = [one for one, pack in packs.items() if pack.composed is None]
    vectors = {
        one: embedder.embed_queries(queries.texts, expert=one).vectors for one in (BASE, *experts)
    }
    routed = embedder.embed_queries(queries.texts)
    found = {
        one: judge(rows, documents, queries)
        for one, rows in (*vectors.items(), (ROUTED, routed.vectors))
    }
    ndcg = {one: scores[0] for one, scores in found.items()}
    best = max(vectors, key=lambda one: float(ndcg[one].mean()))
    others = [rows for one, rows in vectors.items() if one != best]
    chance = [ndcg[best]]
    for rows in chance_encoders(vectors[best], others, seed):
        chance.append(judge(rows, documents, queries)[0])
    recall = {one: scores[1] for one, scores in found.items()}
    return SetResult(name, ndcg, recall, np.max(chance, axis=0), routed.routes)


def judge(vectors: Floats, documents: Floats, queries: LabelledQueries) -> tuple[Doubles, Doubles]:
    """Search a pool exactly and judge the rankings.

    Args:
        vectors: float32 (n, dim), unit norm.
        documents: float32 (m, dim), unit norm.
        queries: the n queries.

    Returns:
        nDCG@10 and Recall@10, float64 (n,) each.
    """
    import ir_measures
    from ir_measures import R, nDCG

    qrels = {
        # trec_eval takes whole grades only.
        str(row): {str(document): max(1, round(grade)) for document, grade in relevant.items()}
        for row, relevant in enumerate(queries.relevant)
    }
    run = {
        str(row): {str(one): float(score) for one, score in zip(best, scores, strict=True)}
        for row, best, scores in rank(vectors, documents, DEPTH)
    }
    wanted = {nDCG @ DEPTH: np.zeros(len(queries)), R @ DEPTH: np.zeros(len(queries))}
    for metric in ir_measures.iter_calc(list(wanted), qrels, run):
        wanted[metric.measure][int(metric.query_id)] = metric.value
    return wanted[nDCG @ DEPTH], wanted[R @ DEPTH]


def chance_encoders(best: Floats, others: Sequence[Floats], seed: int) -> list[Floats]:
    """Make encoders that differ from the best one as the others do, but in random directions.

    An oracle over several encoders gains from noise alone: it takes a maximum. What these gain
    is what such a maximum is worth without any skill.

    Args:
        best: float32 (n, dim), unit norm.
        others: vectors of the other encoders.
        seed: of the directions.

    Returns:
        As many encoders as ``others``, each query turned by the same angle as there.
    """
    random = np.random.default_rng(seed)
    made = []
    for rows in others:
        noise = random.standard_normal(best.shape).astype(np.float32)
        noise -= (noise * best).sum(1, keepdims=True) * best
        noise /= np.maximum(np.linalg.norm(noise, axis=1, keepdims=True), 1e-12)
        cosine = np.clip((rows * best).sum(1, keepdims=True), -1.0, 1.0)
        made.append(np.asarray(cosine * best + np.sqrt(1 - cosine**2) * noise, np.float32))
    return made
