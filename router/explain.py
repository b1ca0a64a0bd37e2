"""Why the gate decided as it did, for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..experts import ExpertPack
from ..models.arrays import Floats
from ..types import NearPilot, Query, Route
from .assemble import centered
from .library import unit
from .settings import GateSettings

BASE = "base"


def explain(
    query: Query,
    route: Route,
    state: Floats,
    packs: Mapping[str, ExpertPack],
    settings: GateSettings | None,
    *,
    count: int = 3,
) -> Route:
    """Add the nearest pilots and the reason to a route.

    Args:
        query: what was asked.
        route: of the query.
        state: float32 (gate_dim,), what the gate saw.
        packs: the loaded experts.
        settings: of the gate; ``None`` for a model without one.
        count: pilots to name.

    Returns:
        The route with ``nearest`` and ``reason``.
    """
    if query.modality == "image":
        return replace(route, reason="a picture alone passes through no adapter")
    if query.modality == "composed":
        return replace(route, reason=_composed(route))
    if settings is None:
        return replace(route, reason="this model has no gate, so the base serves every query")
    found = _nearest(state, packs, settings, count)
    return replace(route, nearest=tuple(found), reason=_text(route, settings))


def _nearest(
    state: Floats, packs: Mapping[str, ExpertPack], settings: GateSettings, count: int
) -> list[NearPilot]:
    here = unit(state[None] - settings.center)[0]
    found = []
    for name, pack in packs.items():
        similarity = centered(pack.gate, settings.center) @ here
        for row, value in enumerate(similarity.tolist()):
            dataset = pack.gate.datasets[row] if pack.gate.datasets else ""
            example = pack.gate.examples[row] if pack.gate.examples else ""
            found.append(NearPilot(name, dataset, example, value))
    return sorted(found, key=lambda one: -one.similarity)[:count]


def _composed(route: Route) -> str:
    if route.expert == BASE:
        return "no composed expert is loaded: the vectors of picture and text are added"
    return f"a picture with a text goes to {route.expert!r} by its form"


def _text(route: Route, settings: GateSettings) -> str:
    if not route.scores:
        return "no loaded expert has pilots, so the base serves the query"
    best = max(route.scores, key=lambda name: route.scores[name])
    chance = f"{best!r} beats the base with probability {route.scores[best]:.2f}"
    if route.abstained:
        return f"{chance}, less than the threshold of {settings.threshold:.2f}: the base serves"
    return f"{chance}, no less than the threshold of {settings.threshold:.2f}"
