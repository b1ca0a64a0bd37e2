"""The tab Composed: a picture and a change in words, over several turns."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import gradio as gr

from ..errors import InputError, OmniEmbedError
from ..types import Document, Hit, Kind, Query
from .cards import CardView, cards, summary
from .components import Page, Picture, clear_refused, panel, problem, sketch_pad
from .engine import Ask, ask
from .examples import picked, text_chips
from .history import shelf, strip
from .library import Library
from .markup import notice
from .pictures import as_uri, readable, thumbnail
from .turns import Reference, Turn
from .uploads import read_picture, read_sketch
from .visitor import Visitor

if TYPE_CHECKING:
    from PIL.Image import Image

_TRIES = ("at night", "in the snow", "as a drawing", "seen from above", "without people")
_RESULTS = 12
_SHELF = 24
_START = notice(
    "Choose a picture to start from",
    "One from the index, an upload, or a sketch. Then say what should be different.",
    kind="empty",
)
_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
_Shown = tuple[str, str, Visitor]


def start_upload(picture: str | None, visitor: Visitor) -> _Shown:
    """Begin with an uploaded picture.

    Args:
        picture: path of the upload.
        visitor: whose turns these are.

    Returns:
        HTML of the history and of the results, and the visitor.
    """
    if not picture:
        return strip(visitor.conversation), _START, visitor
    try:
        return _start("your picture", read_picture(picture), visitor)
    except OmniEmbedError as error:
        return strip(visitor.conversation), problem(error), visitor


def refine(text: str, visitor: Visitor) -> _Shown:
    """Ask for a change in the reference.

    Args:
        text: the change; empty for pictures like it.
        visitor: whose turns these are.

    Returns:
        HTML of the history and of the results, and the visitor.
    """
    talk = visitor.conversation
    if talk.reference is None:
        return strip(talk), _START, visitor
    try:
        told, found = _turn(talk.reference, text.strip(), visitor)
    except OmniEmbedError as error:
        return strip(talk), problem(error), visitor
    return strip(talk), told + found, visitor


def build(page: Page) -> None:
    """Lay out the tab.

    Args:
        page: what the tabs share.
    """
    with gr.Row(equal_height=False):
        with gr.Column(scale=2, min_width=300), gr.Tabs():
            with gr.Tab("From the index"):
                pool = panel(shelf(_pictures(page.library), page.library), elem_id="pool")
            with gr.Tab("Upload"):
                picture = Picture(
                    label="Reference picture",
                    sources=["upload", "clipboard", "webcam"],
                    type="filepath",
                    height=260,
                    buttons=[],
                    elem_id="composed-picture",
                )
            with gr.Tab("Sketch"):
                pad = sketch_pad(elem_id="composed-sketch")
        with gr.Column(scale=3, min_width=300):
            history = panel(strip(None), elem_id="composed-history")
            text = gr.Textbox(
                label="What should be different?",
                placeholder="at night",
                max_length=500,
                elem_id="composed-text",
            )
            tries = panel(text_chips(_TRIES), elem_id="composed-examples")
            go = gr.Button("Find it", variant="primary", elem_id="composed-go")
    found = panel(_START, elem_id="composed-results")
    shown = [history, found, page.visitor]
    pool.click(_from_index, page.visitor, shown, **_QUIET)
    picture.upload(
        start_upload,
        [picture, page.visitor],
        shown,
        api_name="compose_start",
        show_progress="minimal",
    )
    picture.upload(clear_refused, picture, picture, **_QUIET)
    pad.click(_from_sketch, page.visitor, shown, **_QUIET)
    gr.on(
        [text.submit, go.click],
        refine,
        [text, page.visitor],
        shown,
        api_name="compose",
        show_progress="minimal",
    )
    tries.click(_take, None, text, **_QUIET).then(refine, [text, page.visitor], shown, **_QUIET)
    found.click(_from_result, page.visitor, [*shown, text], **_QUIET)
    history.click(_back, page.visitor, [*shown, text], **_QUIET)


def _start(name: str, image: Image, visitor: Visitor) -> _Shown:
    visitor.conversation.start(Reference(name, image, as_uri(image)))
    return refine("", visitor)


def _turn(reference: Reference, text: str, visitor: Visitor) -> tuple[str, str]:
    wish = Ask(Query(text=text or None, image=reference.image), (Kind.IMAGE,), top_k=_RESULTS + 1)
    answer = ask(visitor.embedder, visitor.library.omni.store, wish)
    hits = [hit for hit in answer.hits if hit.document.image != reference.image][:_RESULTS]
    visitor.conversation.add(Turn(reference, text, tuple(hits)))
    return summary(answer, visitor.experts, count=len(hits)), _results(hits, visitor)


def _results(hits: list[Hit], visitor: Visitor) -> str:
    if not hits:
        return notice(
            "No other pictures here",
            "Nothing else of this kind is indexed. Start the demo on a folder with pictures.",
            kind="empty",
        )
    view = CardView(visitor.library.roots, act=("Start from this", "use"))
    return cards(hits, view, layout="oe-gallery")


def _from_index(visitor: Visitor, event: gr.EventData) -> _Shown:
    found = _pictures(visitor.library)
    at = int(event._data["at"])
    if not 0 <= at < len(found):
        return strip(visitor.conversation), _START, visitor
    visitor.conversation.start(_reference(found[at], visitor))
    return refine("", visitor)


def _from_sketch(visitor: Visitor, event: gr.EventData) -> _Shown:
    try:
        return _start("your sketch", read_sketch(event._data.get("image")), visitor)
    except OmniEmbedError as error:
        return strip(visitor.conversation), problem(error), visitor


def _from_result(visitor: Visitor, event: gr.EventData) -> tuple[str, str, Visitor, str]:
    """Make a result the next reference, and wait for the next change."""
    talk, at = visitor.conversation, int(event._data["at"])
    hits = talk.turns[-1].hits if talk.turns else ()
    if 0 <= at < len(hits):
        talk.reference = _reference(hits[at].document, visitor)
        told, found = _turn(talk.reference, "", visitor)
        return strip(talk), told + found, visitor, ""
    return strip(talk), _START, visitor, ""


def _back(visitor: Visitor, event: gr.EventData) -> tuple[str, str, Visitor, str]:
    talk, at = visitor.conversation, int(event._data["at"])
    if not 0 <= at < len(talk.turns):
        return strip(talk), _START, visitor, ""
    turn = talk.back_to(at)
    return strip(talk), _results(list(turn.hits), visitor), visitor, turn.text


def _reference(document: Document, visitor: Visitor) -> Reference:
    roots = visitor.library.roots
    source = thumbnail(document.image, roots)
    if source is None or document.image is None or readable(document.image, roots) is None:
        raise InputError("this picture cannot be read any more; choose another")
    return Reference(document.title or "picture", document.image, source)


@cache
def _pictures(library: Library) -> tuple[Document, ...]:
    """Choose indexed pictures to start from."""
    if not library.info.kinds.get(Kind.IMAGE.value):
        return ()
    wish = Ask(Query(text="a photo"), (Kind.IMAGE,), expert="base", top_k=_SHELF, hybrid=False)
    hits = ask(library.omni.embedder, library.omni.store, wish).hits
    return tuple(hit.document for hit in hits if thumbnail(hit.document.image, library.roots))


def _take(event: gr.EventData) -> str:
    return picked(_TRIES, event._data.get("at"))
