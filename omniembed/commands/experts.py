"""``omniembed experts``: list, add, remove, train."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError, MissingExtraError
from ..sdk import OmniEmbed
from .common import JsonOption, ModelOption, errors_as_messages

if TYPE_CHECKING:
    from ..experts.training.user import UserConfig

app = typer.Typer(
    help="List, add, remove and train experts: adapters for the query side.", no_args_is_help=True
)

NameArgument = Annotated[str, typer.Argument(help="Name of the expert.", metavar="NAME")]


@app.command("list")
def list_experts(model: ModelOption = "mini", json: JsonOption = False) -> None:
    """List the experts with what they are for."""
    from ..expert_tables import print_cards

    with errors_as_messages():
        print_cards(OmniEmbed(model).experts.list(), as_json=json)


@app.command()
def add(
    pack: Annotated[Path, typer.Argument(help="Folder of the pack.", metavar="PATH")],
    model: ModelOption = "mini",
) -> None:
    """Check a pack and keep it: every later search can use it."""
    with errors_as_messages():
        card = OmniEmbed(model).experts.add(pack, keep=True)
        typer.echo(f"added {card.name}: {card.purpose}")


@app.command()
def remove(name: NameArgument, model: ModelOption = "mini") -> None:
    """Remove an expert. Those that ship with the model can be added again by their folder."""
    with errors_as_messages():
        omni = OmniEmbed(model)
        omni.experts.remove(name, keep=True)
        typer.echo(f"removed {name}")
        shipped = omni.model.directory / "experts" / name
        if shipped.is_dir():
            typer.echo(f"to have it back: omniembed experts add {shipped}")


@app.command()
def train(
    name: NameArgument,
    pairs: Annotated[
        Path | None,
        typer.Option(help="JSON Lines: query, positive, and optionally negatives, image, scores."),
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(help="JSON Lines of documents without queries; they are made from it."),
    ] = None,
    generator: Annotated[
        str, typer.Option(help="Writes queries for --corpus: extractive, or module:function.")
    ] = "extractive",
    out: Annotated[Path | None, typer.Option(help="Folder of pack and run; runs/NAME.")] = None,
    purpose: Annotated[str, typer.Option(help="One sentence for the card.")] = "",
    steps: Annotated[int, typer.Option(min=10, help="Optimiser steps at most.")] = 400,
    keep_anyway: Annotated[
        bool, typer.Option("--keep-anyway", help="Add it even when it does not beat the base.")
    ] = False,
    model: ModelOption = "mini",
    json: JsonOption = False,
) -> None:
    """Train an expert on pairs, compare it with the base, and add it if it is better."""
    from ..expert_tables import print_training, training_log

    with errors_as_messages(), TemporaryDirectory() as scratch, training_log():
        if (pairs is None) == (corpus is None):
            raise InputError("give either --pairs FILE or --corpus FILE")
        omni = OmniEmbed(model)
        folder = out or Path("runs") / name
        if corpus is not None:
            pairs = _generate(omni, corpus, generator, Path(scratch) / f"{corpus.stem}.jsonl")
        if pairs is None:
            raise InputError("give --pairs FILE")
        report = omni.experts.train(
            name,
            pairs,
            out=folder,
            purpose=purpose,
            keep=True,
            keep_anyway=keep_anyway,
            config=_config(steps),
        )
        print_training(report, as_json=json)


def _config(steps: int) -> UserConfig:
    try:
        from ..experts.training.user import UserConfig
    except ImportError as error:
        raise MissingExtraError("training an expert", "train") from error
    return UserConfig.of(steps)


def _generate(omni: OmniEmbed, corpus: Path, generator: str, path: Path) -> Path:
    try:
        from ..experts.training.base import load_base
        from ..experts.training.generate import generate_pairs, load_generator
    except ImportError as error:
        raise MissingExtraError("training an expert", "train") from error
    write = load_generator(generator)
    with TemporaryDirectory() as scratch:
        report = generate_pairs(
            corpus, path, load_base(omni.model, cache=Path(scratch)), generator=write
        )
    typer.echo(
        f"{report.generated} queries from {report.documents} documents, "
        f"{report.kept} of them find their own document again",
        err=True,
    )
    return path
