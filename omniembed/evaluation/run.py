"""From paths to a report: what ``omniembed evaluate`` does."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ..embedder import Embedder
from ..errors import MissingExtraError
from ..experts.training.vectors import ModelEncoder, VectorCache
from .measure import SetResult, measure_set
from .sets import LabelledSet, read_set


def evaluate_paths(
    embedder: Embedder,
    paths: Sequence[Path],
    *,
    split: str = "test",
    limit: int | None = None,
    cache: Path | None = None,
    progress: Callable[[LabelledSet], None] = lambda _: None,
) -> list[SetResult]:
    """Measure base, experts and gate on labelled sets, each in its own pool.

    Args:
        embedder: the model and its experts.
        paths: see :func:`.sets.read_set`.
        split: which queries of a folder.
        limit: queries of a set at most.
        cache: keeps document vectors between runs.
        progress: called with a set before it is measured.

    Returns:
        One result a set.

    Raises:
        MissingExtraError: without the extra ``evaluate``.
        SourceNotFoundError: when a path or split does not exist; before anything is measured.
        InputError: when a line is malformed, or a document cannot be embedded.
    """
    if importlib.util.find_spec("ir_measures") is None:
        raise MissingExtraError("measuring retrieval", "evaluate")
    sets = [read_set(path, split, limit) for path in paths]
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        vectors = VectorCache(cache or Path(scratch), ModelEncoder(embedder.model))
        for one in sets:
            progress(one)
            documents = vectors.vectors(one.documents)
            results.append(measure_set(embedder, one.name, one.queries, documents))
    return results
