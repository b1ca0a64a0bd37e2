"""What the command line prints: tables for people, JSON for scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from .types import Document, Failure, Hit, IndexReport, Kind

if TYPE_CHECKING:
    from .indexer import Progress as ProgressCallback
    from .models.manifest import Manifest
    from .store import StoreInfo

_SNIPPET = 90
_STYLES = {Kind.TEXT: "cyan", Kind.CODE: "green", Kind.IMAGE: "magenta", Kind.TOOL: "yellow"}

out = Console()
err = Console(stderr=True)


@contextmanager
def progress_bar(source: str) -> Iterator[ProgressCallback]:
    """Show a progress bar on standard error while the block runs.

    Args:
        source: what is being indexed.

    Yields:
        The callback for ``OmniEmbed.index``.
    """
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(f"indexing {source}", total=None)

        def advance(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        yield advance


def print_report(source: str, report: IndexReport, *, as_json: bool) -> None:
    """Print what an indexing run did.

    Args:
        source: what was indexed.
        report: the run's report.
        as_json: one JSON object on a line instead of a sentence.
    """
    if as_json:
        _print_json({"source": source, **_report_fields(report)})
        return
    out.print(
        Text(
            f"{source}: {report.added} added, {report.updated} updated, {report.unchanged} "
            f"unchanged, {report.removed} removed in {report.seconds:.1f} s"
        )
    )
    if report.truncated:
        err.print(Text(f"{report.truncated} documents were longer than the model reads"))
    for name, entries, style in (
        ("skipped", report.skipped, "dim"),
        ("failed", report.failed, "red"),
    ):
        for entry in entries:
            err.print(Text(f"{name}: {entry.uri}: {entry.error}", style=style))


def print_hits(
    hits: Sequence[Hit], *, as_json: bool, title: str | None = None, root: Path | None = None
) -> None:
    """Print search results.

    Args:
        hits: best first.
        as_json: one JSON object a hit and line instead of a table.
        title: the query, where several are printed.
        root: folder that paths are shown relative to; the working directory by default.
    """
    if as_json:
        for rank, hit in enumerate(hits, 1):
            query = {"query": title} if title is not None else {}
            _print_json({**query, "rank": rank, **_hit_fields(hit)})
        return
    if not hits:
        out.print("nothing found")
        return
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, expand=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("location", ratio=2, overflow="fold")
    table.add_column("content", ratio=3, no_wrap=True, overflow="ellipsis")
    for hit in hits:
        document = hit.document
        table.add_row(
            f"{hit.score:.3f}",
            Text(document.kind.value, style=_STYLES[document.kind]),
            Text(_shortened(document.location, root or Path.cwd())),
            Text(_snippet(document)),
        )
    out.print(table)
    if title is not None:
        out.print()


def print_info(info: StoreInfo, manifest: Manifest, *, as_json: bool) -> None:
    """Print the state of a store and the model it was opened with.

    Args:
        info: of the store.
        manifest: of the model.
        as_json: one JSON object instead of a table.
    """
    fields = {**asdict(info), "model_parts": [asdict(part) for part in manifest.provenance]}
    if as_json:
        _print_json(fields)
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in asdict(info).items():
        table.add_row(name.replace("_", " "), Text(str(value)))
    out.print(table)


def _report_fields(report: IndexReport) -> dict[str, Any]:
    def failures(entries: Sequence[Failure]) -> list[dict[str, str]]:
        return [
            {"uri": entry.uri, "type": type(entry.error).__name__, "error": str(entry.error)}
            for entry in entries
        ]

    return {
        "added": report.added,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "removed": report.removed,
        "truncated": report.truncated,
        "seconds": round(report.seconds, 3),
        "failed": failures(report.failed),
        "skipped": failures(report.skipped),
    }


def _hit_fields(hit: Hit) -> dict[str, Any]:
    document = hit.document
    return {
        "score": round(hit.score, 6),
        "kind": document.kind.value,
        "id": document.id,
        "location": document.location,
        "title": document.title,
        "text": document.text,
        "uri": document.uri,
        "language": document.language,
        "symbol": document.symbol,
        "start_line": document.start_line,
        "end_line": document.end_line,
        "image": str(document.image) if isinstance(document.image, Path) else None,
        "metadata": dict(document.metadata),
        "expert": hit.route.expert,
        "confidence": hit.route.confidence,
        "abstained": hit.route.abstained,
    }


def _snippet(document: Document) -> str:
    if document.kind is Kind.IMAGE:
        return document.title or document.text[:_SNIPPET]
    shown = document.content if document.kind is Kind.TOOL else document.text
    return " ".join(shown.split())[:_SNIPPET]


def _shortened(location: str, root: Path) -> str:
    """Show paths below a folder relative to it."""
    return location.removeprefix(f"{root.as_posix()}/")


def _print_json(fields: dict[str, Any]) -> None:
    # Not through rich: it would wrap lines at the width of the terminal.
    out.file.write(json.dumps(fields, ensure_ascii=False, default=str) + "\n")
