"""The command line: ``omniembed index``, ``search``, ``info``, ``sample``.

Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 the
command failed, 2 it was called wrongly, 3 indexing finished but some sources failed.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from json import loads
from pathlib import Path
from typing import Annotated

import typer

from .errors import InputError, OmniEmbedError
from .sdk import OmniEmbed
from .types import IndexReport, Query

app = typer.Typer(
    help="Embed and retrieve text, code, images and tool descriptions in one space.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

FAILED, PARTIAL = 1, 3

StoreOption = Annotated[
    str, typer.Option("--store", envvar="OMNIEMBED_STORE", help="Folder or URI of the store.")
]
ModelOption = Annotated[
    str, typer.Option("--model", envvar="OMNIEMBED_MODEL", help="Bundled model or model directory.")
]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", min=1, help="Processor threads; all by default.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON Lines for scripts.")]


class KindChoice(str, Enum):
    """What ``--kind`` takes."""

    TEXT = "text"
    CODE = "code"
    IMAGE = "image"
    TOOL = "tool"


@app.command()
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
    from .ingest import IngestOptions
    from .output import print_report, progress_bar

    options = IngestOptions(include_hidden=hidden, respect_gitignore=gitignore)
    failed = False
    with _errors_as_messages():
        omni = OmniEmbed(model, store, threads=threads)
        for source in sources:
            with progress_bar(source) as progress:
                report = omni.index(source, options=options, progress=progress)
            print_report(source, report, as_json=json)
            failed = failed or bool(report.failed)
    if failed:
        raise typer.Exit(PARTIAL)


@app.command()
def search(
    text: Annotated[str | None, typer.Argument(help="What to look for.")] = None,
    image: Annotated[
        Path | None,
        typer.Option("--image", help="Reference picture; with TEXT, the change wanted in it."),
    ] = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="Number of hits.")] = 10,
    kind: Annotated[
        list[KindChoice] | None, typer.Option("--kind", help="Search these kinds only.")
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
    from .output import print_hits

    with _errors_as_messages():
        if text is None and image is None:
            raise InputError("give a text, --image FILE, or both")
        hits = OmniEmbed(model, store, threads=threads).search(
            Query(text=text, image=image),
            top_k=top_k,
            kinds=[choice.value for choice in kind] if kind else "auto",
            expert=expert,
            where=_conditions(where or []),
            hybrid=hybrid,
        )
        print_hits(hits, as_json=json)


@app.command()
def info(
    store: StoreOption = "./omniembed.lance", model: ModelOption = "mini", json: JsonOption = False
) -> None:
    """Describe the store and the model."""
    from .output import print_info

    with _errors_as_messages():
        omni = OmniEmbed(model, store)
        print_info(omni.info(), omni.model.manifest, as_json=json)


@app.command()
def sample(
    # Not StoreOption: the sample must not land in the store that the environment names.
    store: Annotated[
        str, typer.Option("--store", help="Folder of the store.")
    ] = "./omniembed-sample.lance",
    threads: ThreadsOption = None,
    json: JsonOption = False,
) -> None:
    """Index the bundled sample and ask one question of each kind."""
    from .output import print_hits, print_report, progress_bar
    from .sample import QUERIES, sample_directory

    with _errors_as_messages():
        omni = OmniEmbed(store=store, threads=threads)
        with progress_bar("the sample") as progress:
            report: IndexReport = omni.index(sample_directory(), progress=progress)
        print_report("sample", report, as_json=json)
        for query in QUERIES:
            hits = omni.search(query, top_k=3)
            print_hits(hits, as_json=json, title=query, root=sample_directory())


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


@contextmanager
def _errors_as_messages() -> Iterator[None]:
    """Turn typed errors into one line and an exit code; leave bugs their traceback."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: typer.echo(f"warning: {message}", err=True)
        try:
            yield
        except OmniEmbedError as error:
            typer.secho(f"error: {error}", fg="red", err=True)
            raise typer.Exit(FAILED) from error
        except KeyboardInterrupt:
            typer.echo("interrupted; what was committed stays, run again to resume", err=True)
            raise typer.Exit(130) from None


def main() -> None:
    """Run the command line."""
    # Windows consoles may not be UTF-8; a result must never crash on its way out.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    app()
