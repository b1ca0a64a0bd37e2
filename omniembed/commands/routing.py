"""``omniembed route``."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict
from typing import Annotated

import typer

from ..sdk import OmniEmbed
from .common import JsonOption, ModelOption, errors_as_messages


def route(
    queries: Annotated[list[str], typer.Argument(help="Queries.", metavar="TEXT…")],
    model: ModelOption = "mini",
    json: JsonOption = False,
) -> None:
    """Show which expert would serve a query, how sure the gate is, and why."""
    from ..expert_tables import print_route

    with errors_as_messages():
        for query, found in zip(queries, OmniEmbed(model).route(list(queries)), strict=True):
            if json:
                record = {"query": query, **asdict(found)}
                typer.echo(json_module.dumps(record, ensure_ascii=False))
            else:
                print_route(query, found)
