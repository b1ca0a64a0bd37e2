"""``omniembed evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..sdk import OmniEmbed
from .common import ModelOption, ThreadsOption, errors_as_messages


def evaluate(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="BEIR folders (corpus, queries, qrels), folders of captioned pictures, or jsonl "
            "files of pairs.",
            metavar="PATH…",
        ),
    ],
    split: Annotated[str, typer.Option("--split", help="Queries of a folder.")] = "test",
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Queries of a set at most.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", help="Write the report here as JSON.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw it into this PNG.")] = None,
    cache: Annotated[
        Path | None, typer.Option("--cache", help="Folder that keeps document vectors.")
    ] = None,
    model: ModelOption = "mini",
    threads: ThreadsOption = None,
) -> None:
    """Judge base, experts and gate on your own labelled queries."""
    from ..evaluation.report import summarise
    from ..evaluation.run import evaluate_paths
    from ..evaluation.tables import announce, print_report, write_json

    with errors_as_messages():
        results = evaluate_paths(
            OmniEmbed(model, threads=threads).embedder,
            paths,
            split=split,
            limit=limit,
            cache=cache,
            progress=announce,
        )
        report = summarise(results)
        print_report(report)
        if json is not None:
            write_json(report, json)
        if plot is not None:
            from ..evaluation.plot import plot as draw

            draw(report, plot)
