"""The cards of the shipped experts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError
from ...types import Kind
from ..card import ExpertCard, TrainingSet


@dataclass(frozen=True)
class Purpose:
    """What a shipped expert is for.

    Attributes:
        sentence: one sentence for people.
        kinds: document kinds it aims at.
        query_forms: what its queries look like.
    """

    sentence: str
    kinds: tuple[Kind, ...]
    query_forms: tuple[str, ...]


PURPOSES = {
    "general": Purpose(
        "Questions and requests of every kind; trained on all text sets together.",
        tuple(Kind),
        ("question", "claim", "instruction", "request", "caption"),
    ),
    "text": Purpose(
        "Finds passages for questions, claims, terms and definitions.",
        (Kind.TEXT,),
        ("question", "claim", "term", "definition"),
    ),
    "code": Purpose(
        "Finds functions, shell commands and SQL for what they should do.",
        (Kind.CODE,),
        ("task description", "docstring"),
    ),
    "tool": Purpose(
        "Finds the tool or API that can serve a request.",
        (Kind.TOOL,),
        ("user request", "task description"),
    ),
    "image": Purpose(
        "Finds pictures, icons, symbols and diagrams for a caption.",
        (Kind.IMAGE,),
        ("caption", "label"),
    ),
    "composed": Purpose(
        "Finds the picture that a reference picture becomes by a change in words.",
        (Kind.IMAGE,),
        ("picture and modification text",),
    ),
}

_LICENCE = re.compile(r"^- Licence:\s*(.+)$", re.MULTILINE)
_LONGEST_LICENCE = 200


def training_set(folder: Path, queries: int) -> TrainingSet:
    """Describe a set that an expert was trained on.

    Args:
        folder: of the set; its licence is in ``info.json`` or ``README.md``.
        queries: number of training queries.

    Returns:
        The entry of the card.

    Raises:
        InputError: when the folder states no licence.
    """
    info, readme = folder / "info.json", folder / "README.md"
    licence = ""
    if info.is_file():
        licence = str(json.loads(info.read_text(encoding="utf-8")).get("licence", ""))
    elif readme.is_file():
        match = _LICENCE.search(readme.read_text(encoding="utf-8"))
        licence = match.group(1) if match else ""
    if not licence:
        raise InputError(f"{folder} states no licence; weights that ship need one for every set")
    return TrainingSet(folder.name, licence[:_LONGEST_LICENCE].strip(), queries)


def shipped_card(
    name: str,
    base: str,
    strength: float,
    training: tuple[TrainingSet, ...],
    metrics: Mapping[str, Mapping[str, float]],
) -> ExpertCard:
    """Make the card of a shipped expert.

    Args:
        name: of the expert.
        base: fingerprint of the base.
        strength: chosen on dev.
        training: the sets it was trained on.
        metrics: dev measures, by set and split.

    Returns:
        The card.
    """
    purpose = PURPOSES[name]
    return ExpertCard(
        name=name,
        purpose=purpose.sentence,
        base=base,
        kinds=purpose.kinds,
        query_forms=purpose.query_forms,
        strength=strength,
        training=training,
        metrics=metrics,
    )
