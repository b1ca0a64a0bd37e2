"""The report for people and for scripts."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from ..output import err, out
from .report import Report
from .sets import LabelledSet


def announce(one: LabelledSet) -> None:
    """Say which set is measured next, on standard error.

    Args:
        one: the set.
    """
    line = f"{one.name}: {len(one.queries)} queries, {len(one.documents)} documents"
    err.print(line, highlight=False, markup=False)


def print_report(report: Report) -> None:
    """Print the report.

    Args:
        report: the report.
    """
    table = Table("", "nDCG@10", "95 %", "Recall@10", "to base", "95 %", box=None, padding=(0, 2))
    for one in report.figures:
        table.add_row(
            one.name,
            f"{one.ndcg:.4f}",
            f"{one.interval[0]:.3f} to {one.interval[1]:.3f}",
            "" if one.recall is None else f"{one.recall:.4f}",
            f"{one.gain:+.4f}",
            f"{one.gain_interval[0]:+.3f} to {one.gain_interval[1]:+.3f}",
        )
    out.print(table)
    if len(report.queries) > 1:
        out.print(_by_set(report))
    out.print(
        f"routing accuracy {report.accuracy:.3f}, regret {report.regret:.4f}, "
        f"calibration error {report.calibration_error:.3f}, abstained {report.abstained:.3f}, "
        f"harmed {report.harmed:.3f}, helped {report.helped:.3f}",
        highlight=False,
    )


def _by_set(report: Report) -> Table:
    table = Table("nDCG@10", *report.queries, box=None, padding=(0, 2))
    for one in report.figures:
        table.add_row(one.name, *(f"{one.by_set[name]:.4f}" for name in report.queries))
    return table


def write_json(report: Report, path: Path) -> None:
    """Write the report as JSON.

    Args:
        report: the report.
        path: the file.
    """
    path.write_text(json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8")
