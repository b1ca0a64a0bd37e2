"""What the page offers to try with one click."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..sample import QUERIES, sample_directory
from ..types import Query
from .engine import Ask, ask
from .library import Library
from .markup import esc
from .pictures import thumbnail

_MOST = 7


@dataclass(frozen=True)
class Example:
    """A query.

    Attributes:
        text: its words; may be empty.
        picture: an indexed file; ``None`` for a query in words.
    """

    text: str = ""
    picture: Path | None = None


def examples(library: Library) -> list[Example]:
    """Choose what to offer.

    Args:
        library: what is searched.

    Returns:
        For the sample, queries of every form; for a user's store, titles of what it holds.
    """
    if library.sample:
        pictures = sample_directory() / "images"
        return [
            *(Example(text) for text in QUERIES),
            Example(picture=pictures / "rocket.webp"),
            Example("at night", pictures / "house.png"),
        ]
    found = []
    for kind in library.info.kinds:
        wish = Ask(Query(text="overview"), (kind,), expert="base", top_k=2, hybrid=False)
        for hit in ask(library.omni.embedder, library.omni.store, wish).hits:
            title = hit.document.title.rpartition(" > ")[2]
            found += [Example(title)] if 3 < len(title) < 60 else []
    return list(dict.fromkeys(found))[:_MOST]


def chips(offered: list[Example], library: Library) -> str:
    """Draw examples as buttons.

    Args:
        offered: the examples.
        library: says which pictures may be shown.

    Returns:
        HTML; the buttons' ``data-at`` is the position of the example.
    """
    labels = []
    for one in offered:
        source = thumbnail(one.picture, library.roots, 56) if one.picture else None
        alt = esc(one.picture.stem) if one.picture else ""
        image = f'<img src="{source}" alt="{alt}">' if source else ""
        label = esc(f"+ {one.text}" if one.text else "its like") if image else esc(one.text)
        labels.append(image + label)
    return _row(labels)


def text_chips(texts: Sequence[str]) -> str:
    """Draw texts as buttons.

    Args:
        texts: what a click puts into the text box.

    Returns:
        HTML; the buttons' ``data-at`` is the position of the text.
    """
    return _row([esc(text) for text in texts])


def picked(texts: Sequence[str], at: object) -> str:
    """Read a click on one of :func:`text_chips`.

    Args:
        texts: the same texts.
        at: ``data-at`` as the browser sent it.

    Returns:
        The text; the first one for a position that does not exist.
    """
    known = isinstance(at, int) and 0 <= at < len(texts)
    return texts[at] if known and isinstance(at, int) else texts[0]


def _row(labels: Sequence[str]) -> str:
    drawn = [
        f'<button type="button" class="oe-try" data-act="try" data-at="{at}">{label}</button>'
        for at, label in enumerate(labels)
    ]
    lead = '<span class="oe-dim">Try</span>' if drawn else ""
    return f'<div class="oe-tries">{lead}{"".join(drawn)}</div>'
