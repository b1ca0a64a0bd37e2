"""The page: a header and five tabs over one library."""

from __future__ import annotations

import gradio as gr

from ..types import Kind
from . import tab_composed, tab_experts, tab_routing, tab_search, tab_tools
from .cards import KINDS
from .components import Page
from .library import Library
from .markup import chip, esc
from .visitor import Visitor

SESSION_SECONDS = 4 * 3600
"""How long the state of a session that is not used any more is kept."""


def build(library: Library) -> gr.Blocks:
    """Put the page together.

    Args:
        library: what it searches.

    Returns:
        The app, not yet served.
    """
    with gr.Blocks(
        title="omniembed", analytics_enabled=False, delete_cache=(600, SESSION_SECONDS)
    ) as app:
        visitor = gr.State(
            Visitor(library), time_to_live=SESSION_SECONDS, delete_callback=Visitor.close
        )
        page = Page(library, visitor)
        gr.HTML(_header(library), apply_default_css=False)
        with gr.Tabs():
            with gr.Tab("Search"):
                tab_search.build(page)
            with gr.Tab("Routing"):
                tab_routing.build(page)
            with gr.Tab("Composed"):
                tab_composed.build(page)
            with gr.Tab("Tools"):
                tab_tools.build(page)
            with gr.Tab("Experts"):
                tab_experts.build(page)
    return app


def _header(library: Library) -> str:
    info = library.info
    kinds = " ".join(
        chip(f"{count:,} {kind}", KINDS[Kind.parse(kind)]) for kind, count in info.kinds.items()
    )
    return (
        '<div class="oe-head"><h1><i>omniembed</i></h1>'
        f'<p class="oe-dim">{esc(library.title)} · {info.rows:,} documents {kinds}</p>'
        '<button type="button" class="oe-button oe-small oe-theme" '
        'aria-label="light or dark">◐ theme</button></div>'
    )
