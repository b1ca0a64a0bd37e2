"""Drawings as inline SVG and HTML: they follow the theme and load nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .geometry import PilotMap, PilotPoint
from .markup import PALETTE, colour, esc

_WIDTH, _HEIGHT, _MARGIN = 640.0, 420.0, 26.0


def gate_bars(
    scores: Mapping[str, float], threshold: float, served: str, experts: Sequence[str]
) -> str:
    """Draw the probability of every expert to beat the base, and the line it has to reach.

    Args:
        scores: by expert.
        threshold: of the gate.
        served: the expert that serves the query, or ``"base"``.
        experts: names, for the colours.

    Returns:
        HTML.
    """
    rows = []
    for name, value in sorted(scores.items(), key=lambda item: -item[1]):
        chosen = " oe-chosen" if name == served else ""
        rows.append(
            f'<div class="oe-bar{chosen}" style="--x:{colour(name, experts)}">'
            f'<span class="oe-barname">{esc(name)}</span>'
            f'<span class="oe-track" role="meter" aria-label="{esc(name)}" aria-valuemin="0" '
            f'aria-valuemax="1" aria-valuenow="{value:.3f}">'
            f'<i style="width:{min(max(value, 0), 1):.1%}"></i></span>'
            f'<span class="oe-barvalue">{value:.2f}</span></div>'
        )
    line = (
        f'<div class="oe-threshold" style="--at:{threshold:.4f}">'
        f"<span>threshold {threshold:.2f}</span></div>"
    )
    return f'<div class="oe-bars"><div class="oe-barbox">{line}{"".join(rows)}</div></div>'


def map_svg(plane: PilotMap, experts: Sequence[str], *, nearest: int = 3) -> str:
    """Draw the map of pilots with the query on it.

    Args:
        plane: what lies where.
        experts: names, for the colours.
        nearest: pilots that are joined with the query.

    Returns:
        HTML; a tooltip for each pilot is in ``data-tip``.
    """
    scale = _Scale.of(plane)
    order = sorted(range(len(plane.points)), key=lambda at: -plane.points[at].similarity)
    near = set(order[:nearest]) if plane.query is not None else set()
    lines, dots = [], []
    # The nearest come last, so that none covers them.
    for at in reversed(order):
        point = plane.points[at]
        x, y = scale.place(point.x, point.y)
        if plane.query is not None and at in near:
            qx, qy = scale.place(*plane.query)
            lines.append(f'<line x1="{qx:.1f}" y1="{qy:.1f}" x2="{x:.1f}" y2="{y:.1f}"/>')
        dots.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{8 if at in near else 5.5}" '
            f'class="{"oe-near" if at in near else ""}" fill="{colour(point.expert, experts)}" '
            f'tabindex="0" data-tip="{esc(_tip(point, plane.query is not None))}"/>'
        )
    query = ""
    if plane.query is not None:
        x, y = scale.place(*plane.query)
        query = (
            f'<g class="oe-query" transform="translate({x:.1f} {y:.1f})" tabindex="0" '
            'data-tip="your query"><circle r="15"/>'
            '<path d="M0-10 3-3 10 0 3 3 0 10-3 3-10 0-3-3Z"/></g>'
        )
    present = [name for name in experts if any(one.expert == name for one in plane.points)]
    legend = "".join(
        f'<span style="--x:{colour(name, experts)}"><i></i>{esc(name)}</span>' for name in present
    )
    return (
        f'<div class="oe-map"><div class="oe-legend">{legend}</div>'
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" '
        f'aria-label="map of pilots"><g class="oe-links">{"".join(lines)}</g>'
        f'{"".join(dots)}{query}</svg><div class="oe-tip" hidden></div>'
        '<p class="oe-dim">Each dot is a pilot: the mean of the queries of one data set that its '
        f"expert serves best. The two axes show {plane.explained:.0%} of how pilots differ; lines "
        f"lead to the {nearest} that are nearest in the full space.</p></div>"
    )


def nearest_list(plane: PilotMap, experts: Sequence[str], count: int = 3) -> str:
    """List the pilots nearest to the query, for those who cannot hover.

    Args:
        plane: the map.
        experts: names, for the colours.
        count: entries.

    Returns:
        HTML; empty without a query.
    """
    if plane.query is None:
        return ""
    best = sorted(plane.points, key=lambda point: -point.similarity)[:count]
    items = "".join(
        f'<li style="--x:{colour(one.expert, experts)}"><i></i><b>{esc(one.expert)}</b> '
        f"{esc(one.dataset)} <span>{one.similarity:.2f}</span><q>{esc(one.example)}</q></li>"
        for one in best
    )
    return f'<ol class="oe-nearest">{items}</ol>'


@dataclass(frozen=True)
class Curve:
    """A line of a chart.

    Attributes:
        name: of what is measured.
        points: (step, value), by step.
    """

    name: str
    points: tuple[tuple[float, float], ...]


def curve_svg(curve: Curve, tint: int = 0) -> str:
    """Draw one measure over the steps of a training run.

    Args:
        curve: what to draw.
        tint: position in the palette.

    Returns:
        HTML.
    """
    title = f"<figcaption>{esc(curve.name)}</figcaption>"
    if not curve.points:
        return f'<figure class="oe-curve">{title}<p class="oe-dim">waiting for numbers</p></figure>'
    steps, values = zip(*curve.points, strict=True)
    low, high = min(values), max(values)
    span, reach = (high - low) or 1.0, (max(steps) - min(steps)) or 1.0
    middle = 0.0 if high > low else 0.5
    places = [
        (44 + 260 * (step - min(steps)) / reach, 120 - 100 * (middle + (value - low) / span))
        for step, value in curve.points
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    x, y = places[-1]
    return (
        f'<figure class="oe-curve" style="--x:{PALETTE[tint]}">{title}'
        f'<svg viewBox="0 0 330 150" role="img" aria-label="{esc(curve.name)}">'
        f'<text x="38" y="24" text-anchor="end">{high:.3f}</text>'
        f'<text x="38" y="124" text-anchor="end">{low:.3f}</text>'
        f'<text x="44" y="145">step {min(steps):.0f}</text>'
        f'<text x="304" y="145" text-anchor="end">{max(steps):.0f}</text>'
        f'<path class="oe-axis" d="M44 14V128H310"/><polyline points="{line}"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/></svg><b>{values[-1]:.3f}</b></figure>'
    )


def _tip(point: PilotPoint, asked: bool) -> str:
    near = f" · {point.similarity:.2f} to your query" if asked else ""
    example = f"\n“{point.example}”" if point.example else ""
    return f"{point.expert} / {point.dataset}{near}{example}"


@dataclass(frozen=True)
class _Scale:
    left: float
    bottom: float
    width: float
    height: float

    @classmethod
    def of(cls, plane: PilotMap) -> _Scale:
        places = [(point.x, point.y) for point in plane.points]
        places += [plane.query] if plane.query is not None else []
        xs, ys = zip(*places, strict=True)
        return cls(min(xs), min(ys), (max(xs) - min(xs)) or 1.0, (max(ys) - min(ys)) or 1.0)

    def place(self, x: float, y: float) -> tuple[float, float]:
        inner_x, inner_y = _WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN
        return (
            _MARGIN + inner_x * (x - self.left) / self.width,
            _HEIGHT - _MARGIN - inner_y * (y - self.bottom) / self.height,
        )
