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
) -> Choice:
    """Pick the strength with the best sum of mean nDCG@10 in and out of domain.

    A weaker adapter keeps most of what it learned and loses less elsewhere (WiSE-FT).

    Args:
        tower: carries the adapter.
        adapter: left at the chosen strength.
        own: dev queries of the training sets.
        guard: queries of sets that nothing was trained on; may be empty.
        scales: strengths to try.

    Returns:
        The choice.
    """
    measured: dict[float, dict[str, Metrics]] = {}
    worth: dict[float, float] = {}
    for scale in (0.0, *scales):
        adapter.scale(scale)
        inside, outside = measure(tower, own), measure(tower, guard)
        measured[scale] = {**inside, **outside}
        worth[scale] = mean_ndcg(inside) + mean_ndcg(outside)
        logger.info(
            "scale %.1f: in domain %.4f, out of domain %.4f",
            scale,
            mean_ndcg(inside),
            mean_ndcg(outside),
        )
    best = max(scales, key=lambda scale: worth[scale])
    adapter.scale(best)
    return Choice(best, measured)
