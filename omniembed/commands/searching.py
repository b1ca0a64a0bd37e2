"""``omniembed search``."""

from __future__ import annotations

from enum import Enum
from json import loads
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from ..sdk import OmniEmbed
from ..types import Query
from .common import JsonOption, ModelOption, StoreOption, ThreadsOption, errors_as_messages


class KindChoice(str, Enum):
    """What ``--kind`` takes."""

    TEXT = "text"
    CODE = "code"
    IMAGE = "image"
    TOOL = "tool"
    ALL = "all"


def search(
    text: Annotated[str | None, typer.Argument(help="What to look for.")] = None,
    image: Annotated[
        Path | None,
        typer.Option("--image", help="Reference picture; with TEXT, the change wanted in it."),
    ] = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="Number of hits.")] = 10,
    kind: Annotated[
        list[KindChoice] | None,
        typer.Option(
            "--kind",
            help="Search these kinds only, or all; without it, the kinds that the query is almost "
            "surely after.",
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            help="FIELD=VALUE, such as language=python or metadata.year=2024; repeat to narrow.",
        ),
    ] = None,
    expert: Annotated[str, typer.Option("--expert", help="auto, base or an expert.")] = "auto",
    hybrid: Annotated[
        bool | None, typer.Option("--hybrid/--no-hybrid", help="Fuse vector and word search.")
    ] = None,
    store: StoreOption = "./omniembed.lance",
    model: ModelOption = "mini",
    threads: ThreadsOption = None,
    json: JsonOption = False,
) -> None:
    """Search by a text, a picture, or a picture and the change wanted in it."""
    from ..output import print_hits

    with errors_as_messages():
        if text is None and image is None:
            raise InputError("give a text, --image FILE, or both")
        hits = OmniEmbed(model, store, threads=threads).search(
            Query(text=text, image=image),
            top_k=top_k,
            kinds=_kinds(kind),
            expert=expert,
            where=_conditions(where or []),
            hybrid=hybrid,
        )
        print_hits(hits, as_json=json)


def _conditions(pairs: list[str]) -> dict[str, object] | None:
    conditions: dict[str, object] = {}
    for pair in pairs:
        field, equals, value = pair.partition("=")
        if not equals or not field:
            raise InputError(f"--where takes FIELD=VALUE, not {pair!r}")
        if field in conditions:
            raise InputError(f"--where names {field!r} twice; no document could match both")
        conditions[field] = _value(field, value)
    return conditions or None


def _value(field: str, value: str) -> object:
    """Read a filter's value: numbers and booleans where the field may hold them."""
    if field.startswith("metadata.") or field in {"start_line", "end_line"}:
        try:
            return loads(value)
        except ValueError:
            return value
    return value


def _kinds(chosen: list[KindChoice] | None) -> str | list[str]:
    if not chosen:
        return "auto"
    return "all" if KindChoice.ALL in chosen else [choice.value for choice in chosen]
