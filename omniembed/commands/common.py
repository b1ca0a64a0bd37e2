"""What every command shares: options, exit codes, errors as one line."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ..errors import OmniEmbedError

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


@contextmanager
def errors_as_messages() -> Iterator[None]:
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
