"""The report as a picture."""

from __future__ import annotations

from pathlib import Path

from .measure import BASE, ROUTED
from .report import Report

_ORACLES = ("dataset oracle", "instance oracle", "chance oracle")


def plot(report: Report, path: Path) -> None:
    """Draw every encoder's mean nDCG@10 with its interval.

    Args:
        report: the report.
        path: a PNG.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    rows = sorted(report.figures, key=lambda one: one.ndcg)
    canvas = Canvas(figsize=(8, 0.42 * len(rows) + 1.4), layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.add_subplot()
    colours = [_colour(one.name) for one in rows]
    errors = [
        [one.ndcg - one.interval[0] for one in rows],
        [one.interval[1] - one.ndcg for one in rows],
    ]
    values = [one.ndcg for one in rows]
    axes.barh([one.name for one in rows], values, xerr=errors, color=colours, ecolor="#555555")
    base = next(one.ndcg for one in rows if one.name == BASE)
    axes.axvline(base, color="#555555", linewidth=0.8, linestyle="--")
    for place, one in enumerate(rows):
        axes.text(one.interval[1], place, f"  {one.ndcg:.3f}", va="center", fontsize=9)
    low = min(one.interval[0] for one in rows)
    high = max(one.interval[1] for one in rows)
    room = max(high - low, 0.01)
    axes.set_xlim(max(0.0, low - 0.4 * room), min(1.1, high + 0.25 * room))
    queries = sum(report.queries.values())
    axes.set_xlabel(
        f"nDCG@10, mean of {len(report.queries)} sets ({queries:,} queries), 95 % interval"
    )
    axes.spines[["top", "right"]].set_visible(False)
    canvas.savefig(path, dpi=120, format="png")


def _colour(name: str) -> str:
    if name == ROUTED:
        return "#1f77b4"
    if name in _ORACLES:
        return "#d9d9d9"
    return "#8fa3b5" if name != BASE else "#c08a3e"
