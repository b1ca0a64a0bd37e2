"""Looks: system fonts, one accent, light and dark. Nothing is loaded from elsewhere."""

from __future__ import annotations

from importlib import resources

import gradio as gr

_SANS = ("ui-sans-serif", "system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")
_MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace")


def theme() -> gr.themes.Base:
    """Make the theme.

    Returns:
        A Gradio theme whose fonts are those of the visitor's system.
    """
    return gr.themes.Base(
        primary_hue=gr.themes.colors.indigo,
        secondary_hue=gr.themes.colors.indigo,
        neutral_hue=gr.themes.colors.slate,
        radius_size=gr.themes.sizes.radius_lg,
        font=_SANS,
        font_mono=_MONO,
    ).set(
        body_background_fill="#f6f7fb",
        body_background_fill_dark="#0f1218",
        body_text_color_subdued="#586174",
        body_text_color_subdued_dark="#9ba6ba",
        block_background_fill="#ffffff",
        block_background_fill_dark="#171b24",
        block_border_width="1px",
        block_label_background_fill="transparent",
        block_label_background_fill_dark="transparent",
        block_label_border_width="0px",
        block_title_text_weight="600",
        border_color_primary="#e3e6ee",
        border_color_primary_dark="#2a303d",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        button_primary_background_fill_dark="*primary_500",
        button_primary_background_fill_hover_dark="*primary_400",
        button_primary_text_color="#ffffff",
        input_background_fill="#ffffff",
        input_background_fill_dark="#11151d",
        input_border_width="1px",
    )


def style() -> str:
    """Read the style sheet.

    Returns:
        CSS.
    """
    return _read("page.css")


def script() -> str:
    """Read what runs once when the page is loaded.

    Returns:
        JavaScript, one function.
    """
    return _read("page.js")


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
