"""Retrieval quality of query vectors against a pool of document vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import fmean

import numpy as np
import pytrec_eval
from numpy.typing import NDArray

from ...models.arrays import Floats
from .data import LabelledQueries
from .negatives import rank

CUTOFF = 10


@dataclass(frozen=True)
class Scores:
    """Measures of every query.

    Attributes:
        ndcg: float64 (n,), nDCG@10.
        recall: float64 (n,), Recall@10.
    """

    ndcg: NDArray[np.float64]
    recall: NDArray[np.float64]

    def mean(self) -> Metrics:
        """Average over the queries."""
        return Metrics(len(self.ndcg), float(self.ndcg.mean()), float(self.recall.mean()))


@dataclass(frozen=True)
class Metrics:
    """Means of one set.

    Attributes:
        queries: number of queries.
        ndcg: nDCG@10, between 0 and 1.
        recall: Recall@10, between 0 and 1.
    """

    queries: int
    ndcg: float
    recall: float


def evaluate(vectors: Floats, documents: Floats, labels: LabelledQueries) -> Scores:
    """Measure query vectors on one set, in its own pool.

    Args:
        vectors: float32 (n, dim), unit norm.
        documents: float32 (m, dim), unit norm.
        labels: the n queries.

    Returns:
        Measures of every query, in order.
    """
    grades = {
        # trec_eval takes whole grades only.
        str(row): {str(document): max(1, round(grade)) for document, grade in relevant.items()}
        for row, relevant in enumerate(labels.relevant)
    }
    run = {
        str(row): {str(one): float(score) for one, score in zip(best, scores, strict=True)}
        for row, best, scores in rank(vectors, documents, CUTOFF)
    }
    measures = {f"ndcg_cut.{CUTOFF}", f"recall.{CUTOFF}"}
    results = pytrec_eval.RelevanceEvaluator(grades, measures).evaluate(run)
    rows = [results[str(row)] for row in range(len(labels))]
    return Scores(
        np.array([row[f"ndcg_cut_{CUTOFF}"] for row in rows]),
        np.array([row[f"recall_{CUTOFF}"] for row in rows]),
    )


def mean_ndcg(metrics: Mapping[str, Metrics]) -> float:
    """Mean nDCG@10 over sets, each counting once.

    Args:
        metrics: by set.

    Returns:
        The mean; 0 for no sets.
    """
    return fmean(one.ndcg for one in metrics.values()) if metrics else 0.0


def as_record(metrics: Mapping[str, Metrics]) -> dict[str, dict[str, float]]:
    """Turn metrics into JSON values.

    Args:
        metrics: by set.

    Returns:
        The same, as dictionaries.
    """
    return {name: asdict(one) for name, one in metrics.items()}
