"""``omniembed export``: bundles that run without omniembed."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from ..sample import sample_directory
from ..sdk import OmniEmbed
from . import export_model
from .common import JsonOption, ModelOption, errors_as_messages

if TYPE_CHECKING:
    from ..export.edge import BundleReport

_WORTH_NAMING = 100_000

app = typer.Typer(help="Export models and bundles.", no_args_is_help=True)
app.command("model")(export_model.model)
app.command("verify")(export_model.verify)


class TargetChoice(str, Enum):
    """What ``--target`` takes."""

    PYTHON = "python"
    NODE = "node"
    WEB = "web"


class PrecisionChoice(str, Enum):
    """What ``--precision`` takes."""

    INT8 = "int8"
    PORTABLE = "portable"
    BLOCK = "block"
    FLOAT = "float"


@app.callback()
def group() -> None:
    """Export models and bundles."""


@app.command()
def edge(
    out: Annotated[Path, typer.Argument(help="Folder to write.", metavar="OUT")],
    target: Annotated[TargetChoice, typer.Option(help="Where it runs.")] = TargetChoice.PYTHON,
    experts: Annotated[str, typer.Option(help="Names with commas between; all; or none.")] = "all",
    precision: Annotated[
        PrecisionChoice | None,
        typer.Option(
            help="int8: as the bundled model is, to the bit. portable: int8 weights, arithmetic "
            "in floats, the same vectors on every machine (needs the extra edge). block, float: "
            "of a model directory that is. By default portable for node and web, else as it is.",
            show_default=False,
        ),
    ] = None,
    text_only: Annotated[
        bool, typer.Option("--text-only", help="Leave the vision tower out.")
    ] = False,
    store: Annotated[
        str | None, typer.Option(help="Store whose documents and vectors to take along.")
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="Folder that file names are written relative to.")
    ] = None,
    model: ModelOption = "mini",
    json: JsonOption = False,
) -> None:
    """Write a bundle of model, experts and gate that runs without omniembed.

    python: numpy, onnxruntime, tokenizers and pillow are all it needs. node: a module with types.
    web: the same module and a page, for any static server. Node and web bundles are built with
    npm, once for each version. docs/EDGE.md tells how to use them.

    A web bundle without --store takes the documents of the bundled sample along, so that its page
    has something to find.
    """
    from ..export.edge import Precision, Target, export_edge

    with errors_as_messages(), TemporaryDirectory() as scratch:
        own = store is None and target is TargetChoice.WEB
        if target is not TargetChoice.PYTHON:
            typer.echo("the JavaScript part is built with npm, once for each version", err=True)
        omni = OmniEmbed(model, Path(scratch) / "sample" if own else store or Path(scratch))
        if own:
            root = sample_directory()
            omni.index(root)
        report = export_edge(
            omni.embedder,
            out,
            target=Target(target.value),
            experts=[name.strip() for name in experts.split(",")],
            precision=Precision(precision.value) if precision else None,
            images=not text_only,
            store=omni.store if own or store else None,
            root=root.absolute() if root else Path.cwd(),
        )
        _print(report, as_json=json)


def _print(report: BundleReport, *, as_json: bool) -> None:
    if as_json:
        record = {**asdict(report), "folder": str(report.folder), "total": report.total}
        typer.echo(json_module.dumps(record))
        return
    for name, size in report.sizes.items():
        if size >= _WORTH_NAMING:
            typer.echo(f"{size / 1e6:8.2f} MB  {name}")
    named = ", ".join(report.experts) or "none"
    typer.echo(
        f"{report.total / 1e6:8.2f} MB  in all: {report.folder}; {report.precision}; "
        f"experts: {named}; {report.documents} documents"
    )
