"""What the command line prints about parity."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.table import Table

from ..output import err, out

if TYPE_CHECKING:
    from .parity import ParityReport

_SHOWN = 6


def print_report(report: ParityReport, *, as_json: bool = False) -> None:
    """Print a parity report.

    Args:
        report: the report.
        as_json: one JSON object instead of tables.
    """
    if as_json:
        content = {**asdict(report), "passed": report.passed}
        out.file.write(json.dumps(content, ensure_ascii=False) + "\n")
        return
    table = Table("tower", "precision", box=None, title=report.name, title_justify="left")
    for name in ("cos min", "cos median", "gate min", "adapter min", "batch diff", "MB", "ms"):
        table.add_column(name, justify="right")
    for row in report.rows:
        table.add_row(
            row.tower,
            row.precision,
            f"{row.cosine_min:.5f}",
            f"{row.cosine_median:.5f}",
            f"{row.state_min:.5f}" if row.tower == "text" else "",
            f"{min(row.adapters):.5f}" if row.adapters else "",
            f"{row.batch_difference:.0e}",
            f"{row.megabytes:.1f}",
            f"{row.milliseconds:.1f}",
        )
    out.print(table)
    for row in report.rows[:2]:
        if row.adapters:
            out.print(
                f"adapters on the {row.tower} tower: {len(row.adapters)} random ones, which move "
                f"torch's vectors to a median cosine of {row.adapter_effect:.2f}"
            )
    for name, counts in report.operators.items():
        out.print(f"{name}: opset {report.opset}, {_operators(counts)}", highlight=False)
    for failure in report.failures:
        err.print(f"below threshold: {failure}", style="red", markup=False)


def _operators(counts: Mapping[str, int]) -> str:
    pairs = sorted(counts.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {count}" for name, count in pairs[:_SHOWN])
    more = f", … {len(pairs) - _SHOWN} more" if len(pairs) > _SHOWN else ""
    return f"{sum(counts.values())} nodes of {len(pairs)} operators: {shown}{more}"
