"""``omniembed export``: model, verify."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common import FAILED, JsonOption, errors_as_messages

if TYPE_CHECKING:
    from ..export.parity import ParityReport


def model(
    spec: Annotated[
        str,
        typer.Argument(
            help="open_clip:MODEL/PRETRAINED, open_clip:FOLDER or hf:NAME_OR_FOLDER.",
            metavar="SPEC",
        ),
    ],
    out: Annotated[Path, typer.Argument(help="Model directory to write.", metavar="OUT")],
    precision: Annotated[
        str, typer.Option(help="Weights: fp32, fp16, int8, block8 or block4.")
    ] = "int8",
    vision: Annotated[
        str | None,
        typer.Option(help="A vision tower aligned to the text tower, in the forms of SPEC."),
    ] = None,
    gate_layer: Annotated[
        int | None, typer.Option(min=1, help="Text layers below the gate; half when omitted.")
    ] = None,
    lora: Annotated[
        str, typer.Option(help="Layers above the gate that carry adapters: all, mlp, attention.")
    ] = "all",
    inputs: Annotated[
        Path | None,
        typer.Option(help="Folder of .txt files (a text a line) and pictures to check with."),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Measure all precisions beside the chosen one.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Keep a model below the thresholds; replace an existing directory."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Turn an open_clip or Hugging Face backbone into a model directory, checked against torch."""
    with errors_as_messages():
        from ..export import ExportConfig, export_model

        config = ExportConfig(
            precision=precision,
            gate_layer=gate_layer,
            lora=lora,
            inputs=inputs,
            compare=compare,
            force=force,
        )
        from ..export.model import ParityError

        try:
            report = export_model(spec, out, vision=vision, config=config)
        except ParityError as error:
            _print(error.report, json)
            raise
        _print(report, json)
        typer.echo(f"{out}: model {report.name!r}, {precision}", err=True)
        _finish(report)


def verify(
    directory: Annotated[Path, typer.Argument(help="Model directory.", metavar="DIR")],
    json: JsonOption = False,
) -> None:
    """Check an exported directory again: digests, and parity with what torch gave at export."""
    with errors_as_messages():
        from ..export import verify_model

        report = verify_model(directory)
        _print(report, json)
        _finish(report)


def _print(report: ParityReport, json: bool) -> None:
    from ..export.tables import print_report

    print_report(report, as_json=json)


def _finish(report: ParityReport) -> None:
    if not report.passed:
        raise typer.Exit(FAILED)
