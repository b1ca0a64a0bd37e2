"""The tab Routing: which expert serves a query, how sure the gate is, and what that changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr

from ..errors import OmniEmbedError
from ..types import Hit, Query, Route
from .cards import CardView, cards
from .components import Page, panel, problem
from .engine import Answer, Ask, ask, routed
from .examples import picked, text_chips
from .geometry import PlaneCache
from .markup import BASE, chip, colour, esc, notice
from .plots import gate_bars, map_svg, nearest_list
from .visitor import Visitor

_COMPARED = 6
_PLANES = PlaneCache()
_TRIES = (
    "when does the next bus leave?",
    "does aspirin lower the risk of a stroke?",
    "list all files larger than 100 MB",
    "a red bicycle leaning against a wall",
    "wie wird das wetter morgen?",
)
_START = notice(
    "Type, and watch the gate",
    "It reads the query halfway through the text tower and weighs every expert before the pass "
    "goes on.",
    kind="empty",
)
_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


def route(text: str, visitor: Visitor) -> tuple[str, str, str]:
    """Show what the gate makes of a query.

    Args:
        text: the query.
        visitor: whose experts are asked.

    Returns:
        HTML of the decision, the bars and the map.
    """
    if not text.strip():
        return _START, "", _map(visitor, None)
    try:
        found, state = routed(visitor.embedder, text)
    except OmniEmbedError as error:
        return problem(error), "", ""
    settings = visitor.embedder.query_encoder.settings
    experts = visitor.experts
    bars = ""
    if found.scores and settings is not None:
        bars = gate_bars(found.scores, settings.threshold, found.expert, experts)
    return _decision(found, experts), bars, _map(visitor, state)


def compare(text: str, expert: str, visitor: Visitor) -> str:
    """Set the results of the gate's choice beside those of a forced expert.

    Args:
        text: the query.
        expert: ``"base"`` or a name.
        visitor: whose experts are used.

    Returns:
        HTML of both lists.
    """
    if not text.strip():
        return ""
    try:
        store = visitor.library.omni.store
        forced = expert or BASE
        # One pool for both: what moves is then the doing of the expert alone.
        own, other = (
            _everything(ask(visitor.embedder, store, wish), visitor, wish)
            for wish in (
                Ask(Query(text=text), expert=name, top_k=30, hybrid=False)
                for name in ("auto", forced)
            )
        )
    except OmniEmbedError as error:
        return problem(error)
    left = _list(own, (), visitor, f"the gate: {own.route.expert}")
    right = _list(other, own.hits, visitor, f"forced: {forced}")
    return f'<div class="oe-versus">{left}{right}</div>{_moved(own, other)}'


def build(page: Page) -> None:
    """Lay out the tab.

    Args:
        page: what the tabs share.
    """
    with gr.Row():
        text = gr.Textbox(
            label="A query, routed while you type",
            placeholder="which files changed since yesterday",
            max_length=2_000,
            scale=3,
            min_width=280,
            elem_id="route-text",
        )
        forced = page.chooser(
            "Compare with", gate=False, scale=1, min_width=180, elem_id="route-forced"
        )
    tries = panel(text_chips(_TRIES), elem_id="route-examples")
    with gr.Row(equal_height=False):
        with gr.Column(min_width=300):
            decision = panel(_START, elem_id="route-decision")
            bars = panel(elem_id="route-bars")
        with gr.Column(min_width=300):
            plane = panel(elem_id="route-map")
    lists = panel(elem_id="route-compare")
    seen = [decision, bars, plane]
    gr.on(
        [text.input],
        route,
        [text, page.visitor],
        seen,
        api_name="route",
        trigger_mode="always_last",
        show_progress="hidden",
    )
    gr.on(
        [text.submit, forced.input],
        compare,
        [text, forced, page.visitor],
        lists,
        api_name="compare",
        show_progress="minimal",
    )
    chosen = tries.click(_take, None, text, **_QUIET)
    chosen.then(route, [text, page.visitor], seen, **_QUIET).then(
        compare, [text, forced, page.visitor], lists, **_QUIET
    )


def _take(event: gr.EventData) -> str:
    return picked(_TRIES, event._data.get("at"))


def _decision(found: Route, experts: Sequence[str]) -> str:
    if not found.scores:
        return notice("The gate was not asked", found.reason)
    best = max(found.scores, key=lambda name: found.scores[name])
    if found.abstained:
        verdict = f"keep to {chip(BASE)}"
        why = f"{chip(best, colour(best, experts))} came closest"
    else:
        verdict = f"hand over to {chip(found.expert, colour(found.expert, experts))}"
        why = "it is expected to rank better than the base"
    abstained = " oe-abstained" if found.abstained else ""
    return (
        f'<div class="oe-decision{abstained}"><span class="oe-dim">The gate decides to</span>'
        f"<strong>{verdict}</strong><span>{why}, with probability "
        f"<b>{found.confidence:.2f}</b></span><p>{esc(found.reason)}</p></div>"
    )


def _map(visitor: Visitor, state: Any) -> str:
    embedder = visitor.embedder
    settings = embedder.query_encoder.settings
    center = None if settings is None else settings.center
    plane = _PLANES.place(embedder.experts.state.packs, center, state)
    if not plane.points:
        return notice("No pilots", "None of the loaded experts tells the gate where it is at home.")
    experts = visitor.experts
    return map_svg(plane, experts) + nearest_list(plane, experts)


def _everything(answer: Answer, visitor: Visitor, wish: Ask) -> Answer:
    """Search all kinds, where a sure gate would have kept to some."""
    if answer.kinds is None:
        return answer
    every = tuple(visitor.library.info.kinds)
    widened = Ask(wish.query, every, wish.expert, top_k=wish.top_k, hybrid=False)
    return ask(visitor.embedder, visitor.library.omni.store, widened)


def _list(answer: Answer, before: Sequence[Hit], visitor: Visitor, title: str) -> str:
    places = {hit.document.id: rank for rank, hit in enumerate(before, 1)}
    badges = {}
    for rank, hit in enumerate(answer.hits[:_COMPARED], 1):
        if before:
            badges[hit.document.id] = _badge(places.get(hit.document.id), rank)
    view = CardView(visitor.library.roots, badges=badges)
    tint = colour(answer.route.expert, visitor.experts)
    body = cards(answer.hits[:_COMPARED], view, layout="oe-column")
    return f'<section style="--x:{tint}"><h3>{esc(title)}</h3>{body}</section>'


def _badge(before: int | None, now: int) -> str:
    if before is None:
        return '<span class="oe-move oe-new">new</span>'
    if before == now:
        return '<span class="oe-move" title="same place">=</span>'
    if before > now:
        return f'<span class="oe-move oe-up" title="was {before}">▲{before - now}</span>'
    return f'<span class="oe-move oe-down" title="was {before}">▼{now - before}</span>'


def _moved(own: Answer, other: Answer) -> str:
    first = [hit.document.id for hit in own.hits[:_COMPARED]]
    second = [hit.document.id for hit in other.hits[:_COMPARED]]
    same = sum(a == b for a, b in zip(first, second, strict=False))
    fresh = len(set(second) - set(first))
    cosine = float(own.vector @ other.vector)
    return (
        f'<p class="oe-dim">{same} of {len(second)} keep their place, {fresh} come in from below. '
        f"The two query vectors have cosine {cosine:.3f}; documents are the same for both.</p>"
    )
