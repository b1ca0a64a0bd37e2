"""What the command line prints about experts."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from .experts import ExpertCard
from .output import err, out
from .types import Route

if TYPE_CHECKING:
    from .experts.training.user import TrainReport

_LOGGER = "omniembed.experts.training"


def print_cards(cards: Sequence[ExpertCard], *, as_json: bool) -> None:
    """Print experts.

    Args:
        cards: of the loaded experts.
        as_json: one JSON object a line.
    """
    if as_json:
        for card in cards:
            out.file.write(json.dumps(asdict(card), ensure_ascii=False) + "\n")
        return
    if not cards:
        err.print("no experts; add one with: omniembed experts add PATH")
        return
    table = Table("expert", "aims at", "for", "strength", box=None)
    for card in cards:
        table.add_row(card.name, ", ".join(card.kinds), card.purpose, f"{card.strength:.1f}")
    out.print(table)


def print_training(report: TrainReport, *, as_json: bool) -> None:
    """Print an expert beside the base.

    Args:
        report: of the run.
        as_json: one JSON object.
    """
    if as_json:
        record = {
            "name": report.name,
            "strength": report.scale,
            "steps": report.steps,
            "trained_on": report.trained_on,
            "held_out_queries": report.own.queries,
            **report.figures(),
        }
        out.file.write(json.dumps(record, ensure_ascii=False) + "\n")
        return
    table = Table("held-out documents", "base", report.name, "difference", box=None)
    for measure in ("ndcg", "recall"):
        before, after = getattr(report.base, measure), getattr(report.own, measure)
        name = {"ndcg": "nDCG@10", "recall": "Recall@10"}[measure]
        table.add_row(name, f"{before:.4f}", f"{after:.4f}", f"{after - before:+.4f}")
    out.print(table)
    out.print(
        f"{report.own.queries} queries judged, {report.trained_on} trained on, "
        f"{report.steps} steps, strength {report.scale:.1f}; pack in {report.adapter}"
    )


def print_route(query: str, route: Route) -> None:
    """Print how a query would be encoded.

    Args:
        query: the query.
        route: its route.
    """
    out.print(f"[bold]{escape(query)}[/bold] → {route.expert}", highlight=False)
    out.print(f"  {escape(route.reason)}", highlight=False)
    scores = Table("expert", "beats the base", box=None, padding=(0, 2))
    for name, value in sorted(route.scores.items(), key=lambda item: -item[1]):
        scores.add_row(name, f"{value:.2f} {'█' * round(20 * value)}")
    if route.scores:
        out.print(scores)
    for pilot in route.nearest:
        line = f"  near {pilot.expert}/{pilot.dataset} ({pilot.similarity:.2f}): {pilot.example}"
        out.print(line, markup=False, highlight=False)


@contextmanager
def training_log() -> Iterator[None]:
    """Show what training reports, loss and dev nDCG@10 among it, on standard error."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            err.print(record.getMessage(), markup=False, highlight=False)

    logger, handler = logging.getLogger(_LOGGER), Handler()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
