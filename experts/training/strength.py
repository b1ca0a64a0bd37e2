"""Choosing how strongly a trained adapter is applied."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .evaluate import Metrics, mean_ndcg
from .lora import Adapter
from .measure import measure
from .tasks import Probe
from .tower import TorchTower

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """The strength chosen, and what it was chosen by.

    Attributes:
        scale: share of the trained update that is applied.
        measured: metrics by strength and probe; strength 0 is the base.
    """

    scale: float
    measured: Mapping[float, Mapping[str, Metrics]]


def choose_scale(
    tower: TorchTower,
    adapter: Adapter,
    own: Mapping[str, Probe],
    guard: Mapping[str, Probe],
    scales: Sequence[float],
    tolerated: float = 0.004,
) -> Choice:
    """Pick the strength that is best in domain among those that hold out of domain.

    A weaker adapter keeps most of what it learned and loses less elsewhere (WiSE-FT). Without
    guards the strength is the best one in domain.

    Args:
        tower: carries the adapter.
        adapter: left at the chosen strength.
        own: dev queries of the training sets.
        guard: queries of sets that nothing was trained on; may be empty.
        scales: strengths to try.
        tolerated: how far the guards' mean nDCG@10 may lie below its best over the strengths.

    Returns:
        The choice.
    """
    measured: dict[float, dict[str, Metrics]] = {}
    inside: dict[float, float] = {}
    outside: dict[float, float] = {}
    for scale in (0.0, *scales):
        adapter.scale(scale)
        at_home, elsewhere = measure(tower, own), measure(tower, guard)
        measured[scale] = {**at_home, **elsewhere}
        inside[scale], outside[scale] = mean_ndcg(at_home), mean_ndcg(elsewhere)
        logger.info(
            "scale %.1f: in domain %.4f, out of domain %.4f", scale, inside[scale], outside[scale]
        )
    least = max(outside[scale] for scale in scales) - tolerated
    best = max((scale for scale in scales if outside[scale] >= least), key=inside.__getitem__)
    adapter.scale(best)
    return Choice(best, measured)
