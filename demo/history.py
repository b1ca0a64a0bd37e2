"""The strip of turns of a composed search, and the shelf of pictures to start from."""

from __future__ import annotations

from collections.abc import Sequence

from ..types import Document
from .library import Library
from .markup import esc, notice
from .pictures import thumbnail
from .turns import Conversation


def strip(talk: Conversation | None) -> str:
    """Draw the turns so far.

    Args:
        talk: of the visitor.

    Returns:
        HTML; a click on a turn carries its position.
    """
    if talk is None or talk.reference is None:
        return '<div class="oe-strip oe-dim">Your turns appear here.</div>'
    drawn = []
    last = len(talk.turns) - 1
    for at, turn in enumerate(talk.turns):
        label = f"“{esc(turn.text)}”" if turn.text else "pictures like it"
        current = ' aria-current="step"' if at == last else ""
        drawn.append(
            f'<button type="button" class="oe-turn" data-act="back" data-at="{at}"{current}>'
            f'<img src="{turn.reference.thumbnail}" alt="{esc(turn.reference.name)}">'
            f"<span>{label}</span></button>"
        )
    arrow = '<span class="oe-arrow" aria-hidden="true">→</span>'
    return f'<div class="oe-strip" aria-label="turns">{arrow.join(drawn)}</div>'


def shelf(pictures: Sequence[Document], library: Library) -> str:
    """Draw pictures to start from.

    Args:
        pictures: documents with a picture.
        library: says which may be shown.

    Returns:
        HTML; a click on a picture carries its position.
    """
    if not pictures:
        return notice(
            "No pictures are indexed", "Upload one or draw a sketch instead.", kind="empty"
        )
    drawn = []
    for at, document in enumerate(pictures):
        source = thumbnail(document.image, library.roots, 160)
        name = esc(document.title or "picture")
        drawn.append(
            f'<button type="button" data-act="start" data-at="{at}" title="{name}">'
            f'<img src="{source}" alt="{name}" loading="lazy"></button>'
        )
    return f'<div class="oe-shelf">{"".join(drawn)}</div>'
