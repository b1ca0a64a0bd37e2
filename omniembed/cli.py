"""The command line ``omniembed``; one module of ``commands`` for each group.

Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 the
command failed, 2 it was called wrongly, 3 indexing finished but some sources failed.
"""

from __future__ import annotations

import sys

import typer

from .commands import evaluating, experts, export_model, indexing, routing, searching

app = typer.Typer(
    help="Embed and retrieve text, code, images and tool descriptions in one space.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(indexing.index)
app.command()(searching.search)
app.command()(routing.route)
app.command()(evaluating.evaluate)
app.command()(indexing.info)
app.command()(indexing.sample)
app.add_typer(experts.app, name="experts")
app.add_typer(export_model.app, name="export")


def main() -> None:
    """Run the command line."""
    # Windows consoles may not be UTF-8; a result must never crash on its way out.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    app()


if __name__ == "__main__":
    main()
