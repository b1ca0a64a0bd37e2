"""One search for the page: what ``OmniEmbed.search`` does, with the time of every step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from ..embedder import Embedder
from ..errors import InputError
from ..finding import find
from ..models.arrays import Floats
from ..router import explain
from ..sdk import OmniEmbed
from ..store import Store
from ..types import Hit, Kind, Query, Route

MAX_QUERY_CHARACTERS = 10_000


@dataclass(frozen=True)
class Ask:
    """What a visitor asked for.

    Attributes:
        query: text, picture or both.
        kinds: kinds to search; empty to let the route decide.
        expert: ``"auto"``, ``"base"`` or a name.
        where: filter.
        top_k: number of hits.
        hybrid: fuse vector and word search; ``None`` for the default of the SDK.
    """

    query: Query
    kinds: tuple[str, ...] = ()
    expert: str = "auto"
    where: Mapping[str, Any] | None = None
    top_k: int = 10
    hybrid: bool | None = None


@dataclass(frozen=True)
class Answer:
    """What was found, how, and how long it took.

    Attributes:
        hits: best first.
        route: with nearest pilots and reason.
        vector: float32 (dim,), of the query.
        state: float32 (gate_dim,), what the gate saw.
        kinds: that were searched; ``None`` for all.
        hybrid: True when the scores are rank scores.
        encode: seconds in the towers; the gate decides within the same pass.
        explain: seconds to name the nearest pilots and the reason.
        search: seconds in the store.
    """

    hits: tuple[Hit, ...]
    route: Route
    vector: Floats
    state: Floats
    kinds: frozenset[Kind] | None
    hybrid: bool
    encode: float
    explain: float
    search: float


def ask(embedder: Embedder, store: Store, wish: Ask) -> Answer:
    """Search a store with the experts of a visitor.

    Args:
        embedder: of the visitor.
        store: to search.
        wish: what is asked.

    Returns:
        The answer; its hits are those of ``OmniEmbed.search``.

    Raises:
        OmniEmbedError: as ``OmniEmbed.search`` does.
    """
    query, begun = wish.query, perf_counter()
    _check(query)
    encoded = embedder.embed_queries([query], expert=wish.expert)
    vector, state = encoded.vectors[0], encoded.states[0]
    encoded_at = perf_counter()
    route = _explained(embedder, query, encoded.routes[0], state, wish.expert)
    wanted = set(wish.kinds) or None
    likely = None if wanted else embedder.query_encoder.kinds(query, encoded.routes[0], state)
    explained_at = perf_counter()
    found = find(
        store,
        query,
        vector,
        top_k=wish.top_k,
        wanted=None if wanted is None else {Kind.parse(kind) for kind in wanted},
        likely=likely,
        hybrid=wish.hybrid,
        where=wish.where,
    )
    done = perf_counter()
    return Answer(
        hits=tuple(Hit(score, document, route) for score, document in found.documents),
        route=route,
        vector=vector,
        state=state,
        kinds=found.kinds,
        hybrid=found.hybrid,
        encode=encoded_at - begun,
        explain=explained_at - encoded_at,
        search=done - explained_at,
    )


def routed(embedder: Embedder, text: str) -> tuple[Route, Floats]:
    """Route a text without searching.

    Args:
        embedder: of the visitor.
        text: the query.

    Returns:
        The route with its explanation, and float32 (gate_dim,), what the gate saw.

    Raises:
        InputError: for a text without a word.
    """
    query = Query(text=text)
    _check(query)
    encoded = embedder.embed_queries([query])
    state = encoded.states[0]
    return _explained(embedder, query, encoded.routes[0], state, "auto"), state


def temporary_store(embedder: Embedder, folder: str, records: Iterable[object]) -> OmniEmbed:
    """Index records into a store of a visitor's own.

    Args:
        embedder: whose model encodes them.
        folder: where the store goes.
        records: what to index.

    Returns:
        The opened store with the model.

    Raises:
        StoreError: when it cannot be written.
    """
    omni = OmniEmbed(embedder.model, folder)
    omni.index(list(records))
    return omni


def _check(query: Query) -> None:
    if query.text and len(query.text) > MAX_QUERY_CHARACTERS:
        raise InputError(
            f"This query has {len(query.text):,} characters; {MAX_QUERY_CHARACTERS:,} are the "
            "limit. Shorten it."
        )


def _explained(embedder: Embedder, query: Query, route: Route, state: Floats, expert: str) -> Route:
    if expert != "auto":
        return route
    packs = embedder.experts.state.packs
    return explain(query, route, state, packs, embedder.query_encoder.settings)
