"""``omniembed index``, ``info`` and ``sample``."""

from __future__ import annotations

from typing import Annotated

import typer

from ..sdk import OmniEmbed
from ..types import IndexReport
from .common import (
    PARTIAL,
    JsonOption,
    ModelOption,
    StoreOption,
    ThreadsOption,
    errors_as_messages,
)


def index(
    sources: Annotated[list[str], typer.Argument(help="Files, folders or globs.", metavar="PATH…")],
    store: StoreOption = "./omniembed.lance",
    model: ModelOption = "mini",
    threads: ThreadsOption = None,
    hidden: Annotated[bool, typer.Option("--hidden", help="Read hidden files as well.")] = False,
    gitignore: Annotated[bool, typer.Option(help="Respect .gitignore files.")] = True,
    json: JsonOption = False,
) -> None:
    """Index files, or bring the store up to date with them."""
    from ..ingest import IngestOptions
    from ..output import print_report, progress_bar

    options = IngestOptions(include_hidden=hidden, respect_gitignore=gitignore)
    failed = False
    with errors_as_messages():
        omni = OmniEmbed(model, store, threads=threads)
        for source in sources:
            with progress_bar(source) as progress:
                report = omni.index(source, options=options, progress=progress)
            print_report(source, report, as_json=json)
            failed = failed or bool(report.failed)
    if failed:
        raise typer.Exit(PARTIAL)


def info(
    store: StoreOption = "./omniembed.lance", model: ModelOption = "mini", json: JsonOption = False
) -> None:
    """Describe the store and the model."""
    from ..output import print_info

    with errors_as_messages():
        omni = OmniEmbed(model, store)
        print_info(omni.info(), omni.model.manifest, as_json=json)


def sample(
    # Not StoreOption: the sample must not land in the store that the environment names.
    store: Annotated[
        str, typer.Option("--store", help="Folder of the store.")
    ] = "./omniembed-sample.lance",
    threads: ThreadsOption = None,
    json: JsonOption = False,
) -> None:
    """Index the bundled sample and ask one question of each kind."""
    from ..output import print_hits, print_report, progress_bar
    from ..sample import QUERIES, sample_directory

    with errors_as_messages():
        omni = OmniEmbed(store=store, threads=threads)
        with progress_bar("the sample") as progress:
            report: IndexReport = omni.index(sample_directory(), progress=progress)
        print_report("sample", report, as_json=json)
        for query in QUERIES:
            hits = omni.search(query, top_k=3)
            print_hits(hits, as_json=json, title=query, root=sample_directory())
