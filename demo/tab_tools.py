"""The tab Tools: paste descriptions, ask, and get a call that only needs its values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gradio as gr

from ..errors import OmniEmbedError
from ..sample import sample_directory
from ..types import Document, Query
from .cards import CardView, cards, summary
from .components import Page, Upload, panel, problem
from .engine import Ask, ask, temporary_store
from .examples import picked, text_chips
from .markup import chip, esc, notice
from .uploads import MAX_TOOLS_CHARACTERS, read_text, read_tools
from .visitor import Visitor

_RESULTS = 5
_NAMED = 24
_FUNCTIONS = [
    {
        "name": "get_weather",
        "description": "Forecast for a place and a day.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "Town or postal code."},
                "day": {"type": "string", "format": "date", "description": "Today by default."},
                "units": {"type": "string", "enum": ["metric", "imperial"]},
            },
            "required": ["place", "units"],
        },
    },
    {
        "name": "send_mail",
        "description": "Send an electronic letter.",
        "parameters": {
            "type": "object",
            "properties": {
                "to": {"type": "array", "items": {"type": "string", "format": "email"}},
                "subject": {"type": "string"},
                "body": {"type": "string"},
            },
            "required": ["to", "body"],
        },
    },
    {
        "name": "resize_image",
        "description": "Make a picture smaller or larger.",
        "parameters": {
            "type": "object",
            "properties": {
                "file": {"type": "string"},
                "width": {"type": "integer", "default": 1024},
                "keep_ratio": {"type": "boolean", "default": True},
            },
            "required": ["file", "width"],
        },
    },
]
_SOURCES = ("OpenAPI: city services", "MCP: office", "Functions")
_TRIES = (
    "when does the next bus leave?",
    "how much is 50 euros in dollars",
    "tell Ana I'll be late",
)
_EMPTY = notice(
    "No tools yet",
    "Paste descriptions or take one of the examples. They stay in your session.",
    kind="empty",
)
_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


def load_tools(text: str, visitor: Visitor) -> tuple[str, str, Visitor]:
    """Read pasted descriptions into a store of the visitor's own.

    Args:
        text: OpenAPI, an MCP tool list or function schemas.
        visitor: who pasted them.

    Returns:
        HTML of what was read, cleared results, and the visitor.
    """
    try:
        tools = read_tools(text)
        folder = visitor.folder("tools") / "tools.lance"
        visitor.tools = temporary_store(visitor.embedder, str(folder), tools)
    except OmniEmbedError as error:
        return problem(error), "", visitor
    return _loaded(tools), "", visitor


def ask_tools(question: str, expert: str, visitor: Visitor) -> str:
    """Rank the tools for a request.

    Args:
        question: in words.
        expert: ``"auto"``, ``"base"`` or a name.
        visitor: whose tools are ranked.

    Returns:
        HTML of the results.
    """
    if visitor.tools is None:
        return _EMPTY
    if not question.strip():
        return notice("Ask for something", "Say what you want done, in your own words.")
    try:
        wish = Ask(Query(text=question), ("tool",), expert or "auto", top_k=_RESULTS)
        answer = ask(visitor.embedder, visitor.tools.store, wish)
    except OmniEmbedError as error:
        return problem(error)
    view = CardView(visitor.library.roots, answer.hybrid, calls=True)
    drawn = cards(answer.hits, view, layout="oe-column")
    return summary(answer, visitor.experts) + drawn


def build(page: Page) -> None:
    """Lay out the tab.

    Args:
        page: what the tabs share.
    """
    with gr.Row(equal_height=False):
        with gr.Column(scale=2, min_width=300):
            text = gr.Textbox(
                label="Tool descriptions",
                placeholder="OpenAPI 3 (JSON or YAML), an MCP tool list, or function schemas",
                lines=12,
                max_lines=18,
                max_length=MAX_TOOLS_CHARACTERS,
                elem_id="tools-text",
            )
            sources = panel(text_chips(_SOURCES), elem_id="tools-examples")
            with gr.Row():
                read = gr.Button("Read the tools", variant="primary", elem_id="tools-read")
            file = Upload(
                label="or a file",
                file_types=[".json", ".yaml", ".yml"],
                height=110,
                elem_id="tools-file",
            )
        with gr.Column(scale=3, min_width=300):
            loaded = panel(_EMPTY, elem_id="tools-loaded")
            with gr.Row():
                question = gr.Textbox(
                    label="What should be done?",
                    placeholder=_TRIES[0],
                    max_length=2_000,
                    scale=3,
                    min_width=240,
                    elem_id="tools-question",
                )
                expert = page.chooser("Served by", scale=1, min_width=150)
            tries = panel(text_chips(_TRIES), elem_id="tools-tries")
            go = gr.Button("Rank the tools", variant="primary", elem_id="tools-go")
            found = panel(elem_id="tools-results")
    ready = [loaded, found, page.visitor]
    gr.on(
        [read.click], load_tools, [text, page.visitor], ready, api_name="load_tools",
        show_progress="minimal",
    )  # fmt: skip
    gr.on(
        [question.submit, go.click],
        ask_tools,
        [question, expert, page.visitor],
        found,
        api_name="ask_tools",
        show_progress="minimal",
    )
    sources.click(_source, None, text, **_QUIET).then(
        load_tools, [text, page.visitor], ready, **_QUIET
    )
    file.upload(_file, [file, text], [text, loaded], **_QUIET).success(
        load_tools, [text, page.visitor], ready, **_QUIET
    )
    tries.click(_take, None, question, **_QUIET).then(
        ask_tools, [question, expert, page.visitor], found, **_QUIET
    )


def _loaded(tools: list[Document]) -> str:
    names = "".join(chip(tool.title, "#d9822b") for tool in tools[:_NAMED])
    left = len(tools) - _NAMED
    more = f'<span class="oe-dim">and {left} more</span>' if left > 0 else ""
    plural = "tool is" if len(tools) == 1 else "tools are"
    return (
        f'<div class="oe-notice oe-info" role="status"><strong>{len(tools)} {plural} ready'
        f'</strong><div class="oe-names">{names}{more}</div></div>'
    )


def _source(event: gr.EventData) -> str:
    at = _SOURCES.index(picked(_SOURCES, event._data.get("at")))
    if at == 2:
        return json.dumps(_FUNCTIONS, indent=2)
    name = ("city_services.yaml", "office_mcp.json")[at]
    return (sample_directory() / "tools" / name).read_text(encoding="utf-8")


def _file(path: str | None, text: str) -> tuple[str, str]:
    if path is None:
        return text, _EMPTY
    try:
        return read_text(Path(path)), ""
    except OmniEmbedError as error:
        raise gr.Error(esc(str(error)), print_exception=False) from error


def _take(event: gr.EventData) -> str:
    return picked(_TRIES, event._data.get("at"))
