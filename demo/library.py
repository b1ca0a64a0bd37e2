"""What the page searches: the bundled sample, a folder indexed for it, or a store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import IngestError, StoreError
from ..experts.installed import home
from ..sample import sample_directory
from ..sdk import OmniEmbed
from ..store import StoreInfo
from ..types import IndexReport
from .roots import Roots

_TABLE = "documents.lance"


@dataclass(frozen=True, eq=False)
class Library:
    """An opened store and what may be shown of it.

    Attributes:
        omni: model and store.
        title: what visitors read above the page.
        info: state of the store.
        roots: folders whose pictures may be shown.
        sample: True for the bundled sample.
        report: of the indexing run; ``None`` when a store was opened as it is.
    """

    omni: OmniEmbed
    title: str
    info: StoreInfo
    roots: Roots
    sample: bool = False
    report: IndexReport | None = None


def open_library(
    target: str | None,
    *,
    model: str = "mini",
    store: str | None = None,
    threads: int | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Library:
    """Open a store, or index a path and open that.

    Args:
        target: a store (folder or URI), or a path or glob to index; the sample when ``None``.
        model: bundled model or model directory.
        store: where to index to; a folder of the user's own for every path when ``None``, so
            that the next start only reads what changed.
        threads: processor threads; all when ``None``.
        progress: told of (sources done, sources in all or ``None``) while indexing.

    Returns:
        The library.

    Raises:
        StoreError: when the store is missing, unreadable or of another base.
        IngestError: when the path holds nothing that can be indexed.
    """
    if target is not None and is_store(target):
        omni = OmniEmbed(model, target, threads=threads)
        if not omni.store.exists():
            raise StoreError(f"there is no store in {target}; index something into it first")
        roots = Roots.of_sources(omni.store.sources())
        title = target if "://" in target else Path(target).absolute().name
        return Library(omni, title, omni.info(), roots)
    path = sample_directory() if target is None else Path(target).expanduser()
    omni = OmniEmbed(model, store or _own_store(path, model), threads=threads)
    report = omni.index(path, progress=progress)
    if not omni.store.exists():
        raise IngestError(f"{path} holds nothing that can be indexed; name another path")
    title = "the bundled sample" if target is None else path.absolute().name
    return Library(
        omni, title, omni.info(), Roots.of_path(path), sample=target is None, report=report
    )


def is_store(target: str) -> bool:
    """Tell a store from a path to index.

    Args:
        target: what was named.

    Returns:
        True for a URI and for a folder that holds omniembed's table.
    """
    return "://" in target or (Path(target).expanduser() / _TABLE).is_dir()


def _own_store(path: Path, model: str) -> Path:
    name = f"{path.absolute()}\0{model}"
    return home() / "demo" / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.lance"
