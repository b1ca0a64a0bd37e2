"""The search itself: which kinds, by which means, once a query has its vector."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .models.arrays import Floats
from .types import Document, Kind, Query

if TYPE_CHECKING:
    from .store import Store


@dataclass(frozen=True)
class Found:
    """What a search came to.

    Attributes:
        documents: with their scores, best first.
        kinds: that were searched; ``None`` for all.
        hybrid: whether word search was fused in.
    """

    documents: list[tuple[float, Document]]
    kinds: frozenset[Kind] | None
    hybrid: bool


def find(
    store: Store,
    query: Query,
    vector: Floats,
    *,
    top_k: int,
    wanted: Set[Kind] | None,
    likely: Set[Kind] | None,
    hybrid: bool | None = None,
    where: Mapping[str, Any] | None = None,
) -> Found:
    """Search a store.

    Args:
        store: where to look.
        query: what was asked.
        vector: float32 (dim,), of the query.
        top_k: number of documents wanted.
        wanted: kinds that were asked for; ``None`` for no wish.
        likely: without a wish, the kinds that the query is almost surely after. Where the store
            has fewer than ``top_k`` of them, all kinds are searched: better others than too few.
        hybrid: fuse vector and word search; by default when only tools are searched. Queries
            without a text are never hybrid.
        where: filter on fields and metadata.

    Returns:
        The documents, and how they were found.

    Raises:
        StoreError: when the store cannot be read.
        InputError: for a filter that means nothing.
    """

    def among(kinds: Set[Kind] | None) -> Found:
        fused = kinds == {Kind.TOOL} if hybrid is None else hybrid
        fused = fused and query.modality == "text"
        chosen = None if kinds is None else set(kinds)
        if fused:
            text = query.text or ""
            documents = store.hybrid(vector, text, top_k=top_k, kinds=chosen, where=where)
        else:
            documents = store.search(vector, top_k=top_k, kinds=chosen, where=where)
        return Found(documents, None if kinds is None else frozenset(kinds), fused)

    if wanted is not None or likely is None:
        return among(wanted)
    found = among(likely)
    return found if len(found.documents) >= top_k else among(None)
