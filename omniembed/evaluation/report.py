"""What the measures of some sets come to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .measure import BASE, ROUTED, Doubles, SetResult
from .statistics import bootstrap, calibration_error

GENERAL = "general"
MARGIN = 0.01
"""A query is harmed or helped when its nDCG@10 differs from the base's by more than this."""

_TIE = 1e-6


@dataclass(frozen=True)
class Figure:
    """One encoder, or an oracle over them.

    Attributes:
        name: of the encoder.
        ndcg: mean nDCG@10 over sets, each counting once.
        recall: mean Recall@10; ``None`` for oracles, which choose by nDCG@10.
        interval: 95 % bootstrap interval of ``ndcg``.
        gain: ``ndcg`` minus the base's.
        gain_interval: 95 % bootstrap interval of ``gain``, queries paired.
        by_set: nDCG@10 of every set.
    """

    name: str
    ndcg: float
    recall: float | None
    interval: tuple[float, float]
    gain: float
    gain_interval: tuple[float, float]
    by_set: dict[str, float]


@dataclass(frozen=True)
class Report:
    """How encoders and gate do on labelled sets; means count every set once.

    Attributes:
        queries: number of queries, by set.
        figures: base, experts, best single, multi-task, routed, and the oracles: by set
            (``dataset oracle``), by query (``instance oracle``), and by query over encoders that
            differ by chance (``chance oracle``).
        accuracy: share of queries served by an encoder that no other beats.
        regret: mean nDCG@10 that the best encoder of each query has over the routed one.
        calibration_error: expected calibration error of the confidence that the likeliest expert
            beats the base, over queries on which they differ.
        abstained: share of queries left to the base.
        harmed: share of queries whose routed nDCG@10 is more than .01 below the base's.
        helped: share of queries whose routed nDCG@10 is more than .01 above it.
    """

    queries: dict[str, int]
    figures: tuple[Figure, ...]
    accuracy: float
    regret: float
    calibration_error: float
    abstained: float
    harmed: float
    helped: float


def summarise(results: Sequence[SetResult]) -> Report:
    """Summarise sets.

    Args:
        results: at least one, all of the same encoders.

    Returns:
        The report.
    """
    experts = results[0].experts
    single = max((BASE, *experts), key=lambda one: _mean(results, lambda r: r.ndcg[one]))
    rows = [_encoder(results, one, one) for one in (BASE, *experts)]
    rows.append(_encoder(results, f"best single ({single})", single))
    if GENERAL in experts:
        rows.append(_encoder(results, f"multi-task ({GENERAL})", GENERAL))
    rows.append(_encoder(results, ROUTED, ROUTED))
    rows.append(_oracle("dataset oracle", results, _best_of_set))
    rows.append(_oracle("instance oracle", results, lambda r: r.best))
    rows.append(_oracle("chance oracle", results, lambda r: r.chance))
    gains = [result.ndcg[ROUTED] - result.ndcg[BASE] for result in results]
    return Report(
        queries={result.name: len(result) for result in results},
        figures=tuple(rows),
        accuracy=_mean(results, lambda r: (r.chosen >= r.best - _TIE).astype(np.float64)),
        regret=_mean(results, lambda r: r.best - r.ndcg[ROUTED]),
        calibration_error=_calibration(results),
        abstained=_mean(results, lambda r: np.array([float(one.abstained) for one in r.routes])),
        harmed=float(np.mean([(gain < -MARGIN).mean() for gain in gains])),
        helped=float(np.mean([(gain > MARGIN).mean() for gain in gains])),
    )


def _encoder(results: Sequence[SetResult], name: str, encoder: str) -> Figure:
    recall = _mean(results, lambda r: r.recall[encoder])
    return _figure(name, results, lambda r: r.ndcg[encoder], recall)


def _oracle(
    name: str, results: Sequence[SetResult], values: Callable[[SetResult], Doubles]
) -> Figure:
    return _figure(name, results, values, None)


def _figure(
    name: str,
    results: Sequence[SetResult],
    values: Callable[[SetResult], Doubles],
    recall: float | None,
) -> Figure:
    own = [values(result) for result in results]
    gains = [one - result.ndcg[BASE] for one, result in zip(own, results, strict=True)]
    return Figure(
        name,
        ndcg=_mean(results, values),
        recall=recall,
        interval=bootstrap(own),
        gain=float(np.mean([gain.mean() for gain in gains])),
        gain_interval=bootstrap(gains),
        by_set={result.name: float(one.mean()) for one, result in zip(own, results, strict=True)},
    )


def _best_of_set(result: SetResult) -> Doubles:
    encoders = (BASE, *result.experts)
    return result.ndcg[max(encoders, key=lambda one: float(result.ndcg[one].mean()))]


def _calibration(results: Sequence[SetResult]) -> float:
    sure, won = [], []
    for result in results:
        rows, names = [], []
        for row, route in enumerate(result.routes):
            likeliest = max(route.scores, key=route.scores.__getitem__, default=BASE)
            if abs(result.ndcg[likeliest][row] - result.ndcg[BASE][row]) > _TIE:
                rows.append(row)
                names.append(likeliest)
        pairs = list(zip(rows, names, strict=True))
        sure.append(np.array([result.routes[row].scores[name] for row, name in pairs], np.float64))
        base = result.ndcg[BASE]
        won.append(np.array([result.ndcg[name][row] > base[row] for row, name in pairs], np.bool_))
    return calibration_error(sure, won)


def _mean(results: Sequence[SetResult], values: Callable[[SetResult], Doubles]) -> float:
    return float(np.mean([values(result).mean() for result in results]))
