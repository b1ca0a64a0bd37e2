"""Experts as cards, and a training run as curves."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..experts import ExpertCard
from .cards import KINDS
from .markup import button, chip, colour, esc, notice
from .plots import curve_svg
from .training import Progress

_MOST_SETS = 5


def expert_cards(shown: Sequence[ExpertCard], added: Collection[str]) -> str:
    """Draw the experts that a visitor sees.

    Args:
        shown: their cards.
        added: names of those that the visitor added.

    Returns:
        HTML; a click on a button carries the position of the card.
    """
    if not shown:
        return notice(
            "No experts are loaded",
            "The base serves every query. Add a pack, or train one on pairs of your own.",
            kind="empty",
        )
    names = [card.name for card in shown]
    drawn = "".join(_card(at, card, names, card.name in added) for at, card in enumerate(shown))
    return f'<div class="oe-experts">{drawn}</div>'


def progress_view(progress: Progress, name: str) -> str:
    """Draw a training run.

    Args:
        progress: how it stands.
        name: of the expert.

    Returns:
        HTML.
    """
    phase = "training" if progress.loss.points else "embedding the documents once"
    state = f"{phase} … {progress.seconds:.0f} s" if progress.running else "done"
    curves = curve_svg(progress.loss, 4) + curve_svg(progress.dev, 1)
    return (
        f'<div class="oe-run"><p role="status"><b>{esc(name)}</b> '
        f'<span class="oe-dim">{esc(state)}</span></p><div class="oe-curves">{curves}</div></div>'
    )


def outcome_view(progress: Progress) -> str:
    """Draw how a training run ended.

    Args:
        progress: of a run that ended.

    Returns:
        HTML.
    """
    outcome = progress.outcome
    if "error" in outcome:
        return notice("No expert was added", str(outcome["error"]), kind="error")
    figures = outcome["figures"]
    rows = "".join(
        f"<tr><th>{esc(name)}</th><td>{figures[f'base {name}']:.3f}</td>"
        f"<td>{figures[name]:.3f}</td><td>{figures[name] - figures[f'base {name}']:+.3f}</td></tr>"
        for name in ("nDCG@10", "Recall@10")
    )
    return (
        '<div class="oe-notice oe-info" role="status"><strong>'
        f"{esc(outcome['name'])} is loaded for your session</strong>"
        f'<table class="oe-params"><tr><th>{outcome["held_out"]} held-out queries</th><td>base</td>'
        f"<td>{esc(outcome['name'])}</td><td>gain</td></tr>{rows}</table>"
        f"<p>{outcome['trained_on']} pairs; the weights of step {outcome['steps']}, at strength "
        f"{outcome['strength']:.1f}.</p></div>"
    )


def _card(at: int, card: ExpertCard, names: Sequence[str], own: bool) -> str:
    kinds = "".join(chip(kind.value, KINDS[kind]) for kind in card.kinds)
    mine = chip("only you see this", "#d8486b") if own else ""
    forms = f"<p>For: {esc(', '.join(card.query_forms))}</p>" if card.query_forms else ""
    return (
        f'<article class="oe-card oe-expert" style="--x:{colour(card.name, names)}">'
        f"<header><h4>{esc(card.name)}</h4>{kinds}{mine}"
        f"{button('Remove', 'remove', at, kind='oe-small')}</header>"
        f"<p><b>{esc(card.purpose)}</b></p>{forms}{_metrics(card)}{_training(card)}</article>"
    )


def _metrics(card: ExpertCard) -> str:
    """Draw each set as a bar from the base's figure to the expert's."""
    rows: list[str] = []
    named = ""
    for name, measures in card.metrics.items():
        ours = {key: value for key, value in measures.items() if not key.startswith("base ")}
        if not ours:
            continue
        measure = next(iter(ours))
        named = named or measure
        base, own = measures.get(f"base {measure}"), ours[measure]
        shown = f"{own:.3f}" if measure == named else f"{measure} {own:.3f}"
        gain = "" if base is None else f"{own - base:+.3f}"
        tone = "" if base is None else ("oe-up" if own >= base else "oe-down")
        width = f"width:{min(max(own, 0), 1):.0%}"
        rows.append(
            f'<tr><th title="{esc(name)}">{esc(name)}</th>'
            f'<td><span class="oe-track"><i style="{width}"></i></span></td>'
            f'<td class="oe-measure">{esc(shown)}</td>'
            f'<td class="oe-gain {tone}" title="over the base">{gain}</td></tr>'
        )
    if not rows:
        return '<p class="oe-dim">The card gives no metrics.</p>'
    head, rest = "".join(rows[:_MOST_SETS]), rows[_MOST_SETS:]
    more = (
        f"<details><summary>{len(rest)} more sets</summary>"
        f'<table class="oe-metrics">{"".join(rest)}</table></details>'
        if rest
        else ""
    )
    gain = "over base" if any(f"base {named}" in found for found in card.metrics.values()) else ""
    columns = f"<th>test set</th><td></td><td>{esc(named)}</td><td>{gain}</td>"
    top = f'<tr class="oe-columns">{columns}</tr>'
    return f'<table class="oe-metrics">{top}{head}</table>{more}'


def _training(card: ExpertCard) -> str:
    queries = sum(one.queries for one in card.training)
    sets = "".join(
        f"<tr><th>{esc(one.name)}</th><td>{one.queries:,} queries</td>"
        f"<td>{esc(one.licence)}</td></tr>"
        for one in card.training
    )
    told = f"strength {card.strength:.1f}"
    if not sets:
        return f'<p class="oe-dim">{told}</p>'
    told += f" · trained on {queries:,} queries of {len(card.training)} sets"
    return (
        f'<details><summary class="oe-dim">{told}</summary>'
        f'<table class="oe-sets">{sets}</table></details>'
    )
