"""``omniembed demo``."""

from __future__ import annotations

import signal
import threading
from importlib.util import find_spec
from typing import Annotated, NoReturn

import typer

from ..errors import InputError, MissingExtraError
from .common import ModelOption, ThreadsOption, errors_as_messages


def demo(
    target: Annotated[
        str | None,
        typer.Argument(
            help="Path to index, or a store; the sample by default.", metavar="PATH|STORE"
        ),
    ] = None,
    # Not StoreOption: what the environment names must not be filled with the path.
    store: Annotated[
        str | None, typer.Option("--store", help="Where PATH is indexed to; a folder of its own.")
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; by default this machine only.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, help="Port; a free one from 7860.")
    ] = None,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    model: ModelOption = "mini",
    threads: ThreadsOption = None,
) -> None:
    """Start a page that shows search, routing, composed queries, tools and experts."""
    from ..output import print_report, progress_bar

    with errors_as_messages():
        if find_spec("gradio") is None:
            raise MissingExtraError("the demo", "demo")
        from ..demo.gradio_import import import_gradio
        from ..demo.library import open_library

        # Gradio takes about as long to import as the sample to index: do both at once.
        loading = threading.Thread(target=import_gradio, daemon=True)
        loading.start()

        with progress_bar(target or "the sample") as progress:
            library = open_library(
                target, model=model, store=store, threads=threads, progress=progress
            )
        if library.report is not None:
            print_report(library.title, library.report, as_json=False)
        loading.join()
        from ..demo.serve import serving

        signal.signal(signal.SIGTERM, _interrupt)
        try:
            with serving(library, host=host, port=port, browser=browser) as served:
                typer.echo(f"open {served.url}  (Ctrl+C ends it)")
                if host not in {"127.0.0.1", "localhost", "::1"}:
                    typer.echo(
                        "warning: everybody who reaches this machine can search it", err=True
                    )
                threading.Event().wait()
        except OSError as error:
            raise InputError(
                f"cannot listen on {host}:{port or 7860}; another program may: give --port another"
            ) from error
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    """End as with Ctrl+C, so that uploads are deleted."""
    raise KeyboardInterrupt
