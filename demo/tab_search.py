"""The tab Search: text, picture or both, over everything that is indexed."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import gradio as gr

from ..errors import OmniEmbedError
from ..types import Hit, Query
from .cards import CardView, cards, summary
from .components import Page, Picture, clear_refused, panel, problem
from .engine import Answer, Ask, ask
from .examples import chips, examples
from .markup import notice
from .passages import matching_parts
from .pictures import readable
from .roots import Roots
from .uploads import read_picture
from .visitor import Visitor

FUSION = {"automatic": None, "vectors and words": True, "vectors only": False}
ANY = "any"
MAX_RESULTS = 30

_DEEP = 1_000
_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
_START = notice(
    "Ask for anything that is indexed",
    "Words find pictures, code and tools as well. A picture finds its like. A picture with words "
    "finds what it would become.",
    kind="empty",
)


def search(
    text: str,
    picture: str | None,
    kinds: Sequence[str],
    language: str,
    path: str,
    expert: str,
    fusion: str,
    top_k: float,
    visitor: Visitor,
) -> tuple[str, str]:
    """Search what is indexed.

    Args:
        text: what to look for; with a picture, the change wanted in it.
        picture: path of an upload.
        kinds: to keep to; none for the route's choice.
        language: to keep to, or ``"any"``.
        path: part of the path, as shown.
        expert: ``"auto"``, ``"base"`` or a name.
        fusion: a key of :data:`FUSION`.
        top_k: number of results.
        visitor: whose experts are used.

    Returns:
        HTML of the summary and of the results.
    """
    if not text.strip() and not picture:
        return "", _START
    count = min(max(int(top_k), 1), MAX_RESULTS)
    try:
        image = None if not picture else read_picture(picture)
        # Where the host keeps the files is nobody's business: a match there does not count.
        deep = bool(path) and path in visitor.library.roots.top
        wish = Ask(
            Query(text=text.strip() or None, image=image),
            tuple(kinds or ()),
            expert or "auto",
            _where(language, path),
            _DEEP if deep else count,
            FUSION.get(fusion),
        )
        answer = ask(visitor.embedder, visitor.library.omni.store, wish)
        hits = _on_path(answer.hits, path, visitor.library.roots)[:count]
        begun = perf_counter()
        parts = matching_parts(hits, answer.vector, visitor.embedder)
        marking = perf_counter() - begun
    except OmniEmbedError as error:
        visitor.shown = ()
        return "", problem(error)
    visitor.shown = tuple(hits)
    act = ("Find similar", "similar")
    view = CardView(visitor.library.roots, answer.hybrid, parts, act)
    return _drawn(answer, hits, view, visitor, marking)


def build(page: Page) -> None:
    """Lay out the tab.

    Args:
        page: what the tabs share.
    """
    offered = examples(page.library)
    info = page.library.info
    with gr.Row(equal_height=False):
        with gr.Column(scale=3, min_width=300):
            text = gr.Textbox(
                label="What are you looking for?",
                placeholder="a question, a function, a scene, a request …",
                max_length=2_000,
                elem_id="search-text",
            )
            tries = panel(chips(offered, page.library), elem_id="search-examples")
            go = gr.Button("Search", variant="primary", elem_id="search-go")
        with gr.Column(scale=1, min_width=260):
            picture = Picture(
                label="A picture, if you have one",
                sources=["upload", "clipboard", "webcam"],
                type="filepath",
                height=190,
                buttons=[],
                elem_id="search-picture",
            )
    with gr.Accordion("Filters", open=False, elem_id="search-filters"):
        with gr.Row():
            kinds = gr.CheckboxGroup(
                [(f"{kind} ({count:,})", kind) for kind, count in info.kinds.items()],
                label="Kinds",
                min_width=260,
            )
            language = gr.Dropdown(
                [ANY, *info.languages], value=ANY, label="Language", min_width=140
            )
            path = gr.Textbox(label="Path contains", placeholder="notes/", min_width=140)
        with gr.Row():
            expert = page.chooser("Served by", min_width=160, elem_id="search-expert")
            fusion = gr.Dropdown(list(FUSION), value="automatic", label="Compare", min_width=160)
            top_k = gr.Slider(1, MAX_RESULTS, value=8, step=1, label="Results", min_width=160)
    told = panel(elem_id="search-summary")
    found = panel(_START, elem_id="search-results")
    inputs = [text, picture, kinds, language, path, expert, fusion, top_k, page.visitor]
    gr.on(
        [text.submit, go.click, picture.upload],
        search,
        inputs,
        [told, found],
        api_name="search",
        show_progress="minimal",
    )
    picture.upload(clear_refused, picture, picture, **_QUIET)
    narrowed = [kinds.input, language.input, path.submit, expert.input, fusion.input, top_k.release]
    gr.on(narrowed, search, inputs, [told, found], **_QUIET)

    def take(event: gr.EventData) -> tuple[str, Any]:
        one = offered[min(max(int(event._data["at"]), 0), len(offered) - 1)]
        return one.text, readable(one.picture, page.library.roots)

    taken = tries.click(take, None, [text, picture], **_QUIET)
    taken.then(search, inputs, [told, found], **_QUIET)
    similar = found.click(_similar, page.visitor, [text, picture], **_QUIET)
    similar.then(search, inputs, [told, found], **_QUIET)


def _similar(visitor: Visitor, event: gr.EventData) -> tuple[Any, Any]:
    """Make the picture of a result the next query."""
    at = int(event._data["at"])
    image = visitor.shown[at].document.image if 0 <= at < len(visitor.shown) else None
    picture = readable(image, visitor.library.roots)
    return ("", picture) if picture else (gr.skip(), gr.skip())


def _drawn(
    answer: Answer, hits: Sequence[Hit], view: CardView, visitor: Visitor, marking: float
) -> tuple[str, str]:
    if not hits:
        advice = "Fewer filters find more: other kinds, any language, no path."
        return "", notice("Nothing found", advice, kind="empty")
    told = summary(answer, visitor.experts, count=len(hits), marking=marking)
    return told, cards(hits, view)


def _where(language: str, path: str) -> dict[str, Any] | None:
    conditions: dict[str, Any] = {}
    if language and language != ANY:
        conditions["language"] = language
    if path:
        conditions["uri"] = {"$contains": path}
    return conditions or None


def _on_path(hits: Sequence[Hit], path: str, roots: Roots) -> list[Hit]:
    return [hit for hit in hits if not path or path in roots.shown(hit.document.uri)]
