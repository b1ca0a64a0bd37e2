"""Search results as cards."""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..types import Document, Hit, Kind
from .engine import Answer
from .markup import NAMED, button, chip, code_block, colour, esc
from .passages import Span
from .pictures import thumbnail
from .roots import Roots
from .skeleton import skeleton

KINDS = {kind: NAMED[kind.value] for kind in Kind}
_TEXT_CHARACTERS = 520
_SCHEMA_KEYS = ("parameters", "inputSchema", "input_schema")
_MOST_PARAMETERS = 8
_DIGEST = re.compile(r"[0-9a-f]{32,}")
# A line break that only wraps a paragraph: behind a long line, and not before a list item.
_FENCE = "```"
_WRAP = re.compile(r"(?<=[^\n]{56})\n(?=[^\n\s\-*+#>|\d])")


@dataclass(frozen=True)
class CardView:
    """How cards are drawn.

    Attributes:
        roots: what may be shown, and how paths are named.
        hybrid: scores are rank scores, not cosines.
        parts: the sentence to mark, by document id.
        act: label and action of the button on pictures; ``None`` for no button.
        calls: show the schema of tools and a call to fill in.
        badges: what to say beside the rank, by document id.
    """

    roots: Roots
    hybrid: bool = False
    parts: Mapping[str, Span] = field(default_factory=dict)
    act: tuple[str, str] | None = None
    calls: bool = False
    badges: Mapping[str, str] = field(default_factory=dict)


def cards(hits: Sequence[Hit], view: CardView, *, layout: str = "oe-cards") -> str:
    """Draw results.

    Args:
        hits: best first.
        view: how.
        layout: CSS class of the container.

    Returns:
        HTML.
    """
    drawn = "".join(_card(rank, hit, view) for rank, hit in enumerate(hits, 1))
    return f'<div class="{layout}">{drawn}</div>'


def summary(
    answer: Answer, experts: Sequence[str], *, count: int | None = None, marking: float = 0.0
) -> str:
    """Draw what served the query and where the time went.

    Args:
        answer: of the search.
        experts: names, for the colours.
        count: number of results shown; all when ``None``.
        marking: seconds spent on marking the matching sentences.

    Returns:
        HTML.
    """
    route = answer.route
    number = len(answer.hits) if count is None else count
    served = chip(route.expert, colour(route.expert, experts))
    sure = f" {route.confidence:.0%} sure" if route.scores and not route.abstained else ""
    kept = " the gate kept to the base" if route.abstained and route.scores else ""
    kinds = "all kinds" if answer.kinds is None else " + ".join(sorted(map(str, answer.kinds)))
    words = ", vector and words fused" if answer.hybrid else ""
    cut = (
        chip("query cut", "#d9822b", title="longer than the model reads") if route.truncated else ""
    )
    reason = f'<p class="oe-reason">{esc(route.reason)}</p>' if route.reason else ""
    return (
        f'<div class="oe-summary"><div>served by {served}<span class="oe-dim">{esc(sure + kept)}'
        f" · {number} results from {esc(kinds)}{words}</span> {cut}</div>"
        f"{_times(answer, marking)}{reason}</div>"
    )


def _times(answer: Answer, marking: float) -> str:
    parts = [
        ("encode", answer.encode, "the towers; the gate decides within the same pass"),
        ("route", answer.explain, "nearest pilots and the reason"),
        ("search", answer.search, "the store"),
    ]
    if marking:
        parts.append(("mark", marking, "finding the matching sentences"))
    shown = "".join(
        f'<span class="oe-time oe-t-{name}" style="flex-grow:{max(seconds * 1000, 0.4):.2f}" '
        f'title="{esc(hint)}"><b>{name}</b> {seconds * 1000:.1f} ms</span>'
        for name, seconds, hint in parts
    )
    return f'<div class="oe-times" aria-label="time spent">{shown}</div>'


def _card(rank: int, hit: Hit, view: CardView) -> str:
    document = hit.document
    kind = document.kind
    named = document.uri or ("" if _DIGEST.fullmatch(document.id) else document.id)
    place = view.roots.shown(named)
    if document.start_line and kind in (Kind.CODE, Kind.TEXT):
        place = f"{place}:{document.start_line}"
    badge = view.badges.get(document.id, "")
    return (
        f'<article class="oe-card oe-k-{kind}" data-id="{esc(rank)}" style="--x:{KINDS[kind]}">'
        f'<header><span class="oe-rank">{rank}</span>{chip(kind.value, KINDS[kind])}{badge}'
        f'<span class="oe-place" title="{esc(place)}">{esc(place)}</span>'
        f"{_score(hit.score, view.hybrid)}</header>"
        f"{_body(rank - 1, document, view)}</article>"
    )


def _score(score: float, hybrid: bool) -> str:
    title = "rank score of the fused lists" if hybrid else "cosine similarity"
    full = 0.033 if hybrid else 1.0
    share = min(max(score / full, 0.0), 1.0)
    digits = f"{score:.4f}" if hybrid else f"{score:.3f}"
    return (
        f'<span class="oe-score" title="{title}"><i style="width:{share:.0%}"></i>'
        f"<b>{digits}</b></span>"
    )


def _body(at: int, document: Document, view: CardView) -> str:
    if document.kind is Kind.IMAGE:
        return _picture(at, document, view)
    if document.kind is Kind.CODE:
        name = f"<h4>{esc(document.symbol)}</h4>" if document.symbol else ""
        text = textwrap.dedent(document.text)
        return name + code_block(text, document.language, document.start_line)
    if document.kind is Kind.TOOL:
        return _tool(document, view)
    return _text(document, view.parts.get(document.id))


def _picture(at: int, document: Document, view: CardView) -> str:
    name = document.title or document.text or os.path.basename(document.uri) or "picture"
    source = thumbnail(document.image, view.roots)
    if source is None:
        shown = '<div class="oe-missing">the picture is not shown: it is gone, or lies outside '
        shown += "the indexed folders</div>"
    else:
        shown = f'<img src="{source}" alt="{esc(name)}" loading="lazy">'
    act = button(view.act[0], view.act[1], at) if view.act and source else ""
    caption = f'<p class="oe-dim">{esc(document.text)}</p>' if document.text else ""
    return f"<figure>{shown}<figcaption><h4>{esc(name)}</h4>{caption}{act}</figcaption></figure>"


def _text(document: Document, span: Span | None) -> str:
    title = f"<h4>{esc(document.title)}</h4>" if document.title else ""
    text = _flowing(document.text)
    start, end = (span.start, span.end) if span else (0, 0)
    low, high = _behind_heading(document), len(text)
    if len(text) > _TEXT_CHARACTERS:
        low = max(low, min(start - 120, len(text) - _TEXT_CHARACTERS))
        high = max(low + _TEXT_CHARACTERS, end)
    before, after = esc(text[low:start]), esc(text[max(end, low) : high])
    marked = f"<mark>{esc(text[start:end])}</mark>" if span else ""
    start, end = max(start, low), max(end, low)
    lead, trail = "… " if low > _behind_heading(document) else "", " …" if high < len(text) else ""
    return f'{title}<p class="oe-passage">{lead}{before}{marked}{after}{trail}</p>'


def _flowing(text: str) -> str:
    """Undo hard wraps outside of code; the length stays, so that spans still fit."""
    parts = text.split(_FENCE)
    return _FENCE.join(part if at % 2 else _WRAP.sub(" ", part) for at, part in enumerate(parts))


def _behind_heading(document: Document) -> int:
    """Skip a first line that only repeats the title above it."""
    first, _, _ = document.text.partition("\n")
    name = document.title.rpartition(" > ")[2]
    repeats = bool(name) and first.strip("#= \t") == name
    return len(document.text) - len(document.text[len(first) :].lstrip()) if repeats else 0


def _tool(document: Document, view: CardView) -> str:
    function = document.metadata.get("schema")
    schema: Mapping[str, Any] = function if isinstance(function, Mapping) else {}
    where = " ".join(str(document.metadata.get(key, "")) for key in ("method", "path")).strip()
    route = f'<code class="oe-path">{esc(where)}</code>' if where else ""
    described = esc(schema.get("description") or document.text)
    head = f"<h4>{esc(document.title)} {route}</h4><p>{described}</p>{_parameters(schema)}"
    if not view.calls:
        return head
    call = json.dumps(skeleton(schema), indent=2, ensure_ascii=False, default=str)
    full = json.dumps(schema, indent=2, ensure_ascii=False, default=str)
    return (
        f'{head}<div class="oe-call"><div class="oe-callhead"><span>ready to fill in</span>'
        f"{button('Copy', 'copy', 0, kind='oe-small')}</div>{code_block(call, 'json')}</div>"
        f"<details><summary>schema</summary>{code_block(full, 'json')}</details>"
    )


def _parameters(function: Mapping[str, Any]) -> str:
    schema = next((function[key] for key in _SCHEMA_KEYS if key in function), None)
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(schema, Mapping) or not isinstance(properties, Mapping) or not properties:
        return '<p class="oe-dim">no parameters</p>'
    needed = schema.get("required")
    required = needed if isinstance(needed, list) else []
    rows = []
    for name, value in list(properties.items())[:_MOST_PARAMETERS]:
        details = value if isinstance(value, Mapping) else {}
        star = '<abbr title="required">*</abbr>' if name in required else ""
        rows.append(
            f"<tr><th>{esc(name)}{star}</th><td>{esc(details.get('type', ''))}</td>"
            f"<td>{esc(details.get('description', ''))}</td></tr>"
        )
    more = len(properties) - len(rows)
    if more > 0:
        rows.append(f'<tr><td colspan="3" class="oe-dim">and {more} more</td></tr>')
    return f'<table class="oe-params">{"".join(rows)}</table>'
