"""The few pieces of HTML that everything on the page is made of; all text is escaped here."""

from __future__ import annotations

import html
from collections.abc import Sequence
from functools import lru_cache

BASE = "base"

# Categorical, readable on white and on near-black; the base is grey.
PALETTE = (
    "#1899b8",
    "#d8486b",
    "#8f6bf0",
    "#8a9a1b",
    "#c77b30",
    "#3b8f63",
)
# A kind of document, and the expert that is named after it, look the same everywhere.
NAMED = {"text": "#4f7df3", "code": "#12a37f", "image": "#c04fd0", "tool": "#d9822b"}
GREY = "#8b93a3"


def esc(value: object) -> str:
    """Escape text for HTML, in element or attribute.

    Args:
        value: anything; its ``str`` is shown.

    Returns:
        Text without markup. Braces, dollar signs and backticks are escaped as well, so that no
        template of the page's framework can take them for its own.
    """
    text = html.escape(str(value), quote=True)
    for character in "${}`":
        text = text.replace(character, f"&#{ord(character)};")
    return text


def colour(expert: str, experts: Sequence[str]) -> str:
    """Choose the colour of an expert.

    Args:
        expert: its name, or ``"base"``.
        experts: all names, in the order they were added.

    Returns:
        A CSS colour.
    """
    if expert not in experts:
        return GREY
    if expert in NAMED:
        return NAMED[expert]
    others = [name for name in experts if name not in NAMED]
    return PALETTE[others.index(expert) % len(PALETTE)]


def chip(text: str, tint: str = GREY, *, title: str = "") -> str:
    """Make a small label.

    Args:
        text: of the label.
        tint: CSS colour.
        title: shown on hover.

    Returns:
        HTML.
    """
    hint = f' title="{esc(title)}"' if title else ""
    return f'<span class="oe-chip" style="--x:{tint}"{hint}>{esc(text)}</span>'


def button(text: str, act: str, at: int, *, kind: str = "") -> str:
    """Make a button that the page reports to the server.

    Args:
        text: of the button.
        act: what it asks for.
        at: which entry it belongs to.
        kind: further CSS class.

    Returns:
        HTML.
    """
    return (
        f'<button type="button" class="oe-button {kind}" data-act="{esc(act)}" data-at="{at}">'
        f"{esc(text)}</button>"
    )


def notice(title: str, text: str = "", *, kind: str = "info") -> str:
    """Tell people something in place of results.

    Args:
        title: in a few words.
        text: what to do about it.
        kind: ``"info"``, ``"empty"`` or ``"error"``.

    Returns:
        HTML.
    """
    role = "alert" if kind == "error" else "status"
    body = f"<p>{esc(text)}</p>" if text else ""
    head = f"<strong>{esc(title)}</strong>"
    return f'<div class="oe-notice oe-{kind}" role="{role}">{head}{body}</div>'


def code_block(text: str, language: str, start: int | None = None) -> str:
    """Show source text with colours and, where known, line numbers.

    Args:
        text: the code.
        language: its name; unknown ones stay plain.
        start: number of the first line.

    Returns:
        HTML.
    """
    body = _highlighted(text, language)
    gutter = ""
    if start is not None:
        last = start + text.count("\n")
        numbers = "\n".join(str(number) for number in range(start, last + 1))
        gutter = f'<pre class="oe-lines" aria-hidden="true">{numbers}</pre>'
    return f'<div class="oe-code" tabindex="0">{gutter}<pre class="oe-source">{body}</pre></div>'


@lru_cache(maxsize=1024)
def _highlighted(text: str, language: str) -> str:
    from pygments.lexers import get_lexer_by_name
    from pygments.token import STANDARD_TYPES
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return esc(text)
    pieces = []
    for token, piece in lexer.get_tokens(text):
        while token not in STANDARD_TYPES:
            token = token.parent
        name = STANDARD_TYPES[token]
        pieces.append(f'<span class="hl-{name}">{esc(piece)}</span>' if name else esc(piece))
    return "".join(pieces)
