"""The facade: index anything, search it, see how a query was routed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from .embedder import Embedder
from .errors import InputError
from .experts import ExpertRegistry
from .finding import find
from .inputs import DocumentInput, as_query, is_image
from .models.model import Model
from .models.session import SessionOptions
from .types import Hit, IndexReport, Kind, Query, QueryInput, Route

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .indexer import Progress
    from .ingest import IngestOptions
    from .store import Store, StoreInfo

_MAX_TOP_K = 10_000


class OmniEmbed:
    """One model and one store.

    Nothing is opened or loaded before it is used, so that constructing is free. Instances may be
    shared between threads; start other processes with ``spawn`` and build one in each.

    Args:
        model: name of a bundled model, a model directory, or a loaded ``Model``.
        store: where the LanceDB store lies: a folder, or an object-store or LanceDB Cloud URI.
        threads: processor threads of one call; all that the process may use when ``None``.

    Raises:
        InputError: for a number of threads below 1.

    Example:
        >>> omni = OmniEmbed(store="notes.lance")          # doctest: +SKIP
        >>> omni.index("notes/")                           # doctest: +SKIP
        >>> omni.search("how do I renew my passport?")     # doctest: +SKIP
    """

    def __init__(
        self,
        model: str | Path | Model = "mini",
        store: str | Path = "./omniembed.lance",
        *,
        threads: int | None = None,
    ) -> None:
        self.model = Model.load(model, SessionOptions(threads=threads))
        # A relative path means the folder that is current now, not at first use.
        remote = "://" in str(store)
        self._store_uri = store if remote else Path(store).expanduser().absolute()

    @cached_property
    def embedder(self) -> Embedder:
        """Vectors without a store."""
        return Embedder(self.model)

    @property
    def experts(self) -> ExpertRegistry:
        """The loaded experts: ``list()``, ``add(path)``, ``remove(name)``."""
        return self.embedder.experts

    @cached_property
    def store(self) -> Store:
        """The LanceDB store."""
        from .store import Store

        manifest = self.model.manifest
        return Store(
            self._store_uri,
            dim=manifest.dim,
            fingerprint=manifest.fingerprint,
            model=manifest.name,
        )

    @property
    def fingerprint(self) -> str:
        """Identifies the base; every table records the one that its vectors came from."""
        return self.model.manifest.fingerprint

    def index(
        self,
        source: object,
        *,
        options: IngestOptions | None = None,
        progress: Progress | None = None,
    ) -> IndexReport:
        """Add a source to the store, or bring the store up to date with it.

        Unchanged files are neither read nor embedded again; files that vanished from a folder
        are removed. An interrupted run keeps what it committed, and the next one resumes.

        Args:
            source: a path or glob (str or ``Path``), an iterable of records (``Document``, dict,
                image, callable), a pandas ``DataFrame`` or an Arrow table.
            options: what to read, and how to cut it.
            progress: called with (sources done, sources in all or ``None``).

        Returns:
            What was done, with a typed error for every source that failed.

        Raises:
            SourceNotFoundError: when a path or glob matches nothing.
            FingerprintMismatchError: when the store belongs to another base.
        """
        from .indexer import index
        from .ingest import IngestOptions, scan

        found = scan(source, options or IngestOptions())
        return index(found, self.store, self.embedder, progress=progress)

    def search(
        self,
        query: QueryInput,
        *,
        top_k: int = 10,
        kinds: str | Kind | Iterable[str | Kind] = "auto",
        expert: str = "auto",
        where: Mapping[str, Any] | None = None,
        hybrid: bool | None = None,
    ) -> list[Hit]:
        """Find documents.

        Args:
            query: a text, an image (``Path`` or ``PIL.Image``), an (image, modification) pair,
                or a ``Query``.
            top_k: number of hits wanted, 1 to 10,000.
            kinds: document kinds to search; with ``"auto"`` those that the query is almost surely
                after, as the gate's state tells, and all where it does not tell or these are
                fewer than ``top_k``; ``"all"``; a kind or several.
            expert: ``"auto"``, ``"base"`` or the name of an expert.
            where: filter on fields and metadata, such as ``{"language": "python"}`` or
                ``{"start_line": {"$gte": 10}}``; joined with the query's own by "and".
            hybrid: fuse vector and word search; by default when only tools are searched.
                Queries without a text are never hybrid.

        Returns:
            At most ``top_k`` hits, best first.

        Raises:
            InputError: for a query or option that cannot be used.
            UnknownExpertError: for an expert that is not loaded.
            StoreError: when there is no store yet, or it cannot be read.
        """
        if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= _MAX_TOP_K:
            raise InputError(f"top_k must be a whole number from 1 to {_MAX_TOP_K}, not {top_k!r}")
        parsed = as_query(query)
        wanted = _parse_kinds(kinds)
        condition = _join(where, parsed.filters)
        encoded = self.embedder.embed_queries([parsed], expert=expert)
        vector, route = encoded.vectors[0], encoded.routes[0]
        likely = None
        if kinds == "auto":
            likely = self.embedder.query_encoder.kinds(parsed, route, encoded.states[0])
        found = find(
            self.store,
            parsed,
            vector,
            top_k=top_k,
            wanted=wanted,
            likely=likely,
            hybrid=hybrid,
            where=condition,
        )
        return [Hit(score, document, route) for score, document in found.documents]

    def embed_documents(self, documents: Sequence[DocumentInput]) -> NDArray[np.float32]:
        """Embed documents with the base.

        Args:
            documents: texts (str), images (``Path`` or ``PIL.Image``) or ``Document`` objects.

        Returns:
            float32 (n, dim), unit norm, in order; (0, dim) for none.

        Raises:
            InputError: for a document that cannot be embedded, naming its position.
            InputTypeError: for an input of another type.
        """
        return self.embedder.embed_documents(documents)

    def embed_queries(
        self, queries: Sequence[QueryInput], *, expert: str = "auto"
    ) -> NDArray[np.float32]:
        """Embed queries, mixed freely, in one call.

        Args:
            queries: see :meth:`search`.
            expert: ``"auto"``, ``"base"`` or the name of an expert.

        Returns:
            float32 (n, dim), unit norm, in order; (0, dim) for none.

        Raises:
            InputError: for a query that cannot be embedded, naming its position.
            InputTypeError: for an input of another type.
            UnknownExpertError: for an expert that is not loaded.
        """
        return self.embedder.embed_queries(queries, expert=expert).vectors

    @overload
    def route(self, query: list[QueryInput]) -> list[Route]: ...
    @overload
    def route(self, query: QueryInput) -> Route: ...

    def route(self, query: Any) -> Route | list[Route]:
        """Tell how queries would be encoded.

        Args:
            query: one query, or a sequence of them. A tuple of an image and a text is one
                composed query.

        Returns:
            A route, or one a query, with the nearest pilots and the reason.

        Raises:
            InputError: for a query that cannot be embedded.
            InputTypeError: for an input of another type.
        """
        if _is_single(query):
            return self.embedder.explain_queries([query])[0]
        return self.embedder.explain_queries(query)

    def info(self) -> StoreInfo:
        """Describe the store.

        Returns:
            Rows, kinds, size, index state and the base it was built with.

        Raises:
            StoreError: when there is no store yet.
        """
        return self.store.info()


def _is_single(query: object) -> bool:
    if isinstance(query, (str, Query)) or is_image(query):
        return True
    return (
        isinstance(query, tuple)
        and len(query) == 2
        and is_image(query[0])
        and isinstance(query[1], str)
    )


def _parse_kinds(kinds: object) -> set[Kind] | None:
    """Read ``kinds``; ``None`` stands for all."""
    if kinds in ("auto", "all"):
        return None
    if isinstance(kinds, str):
        return {Kind.parse(kinds)}
    if not isinstance(kinds, Iterable):
        raise InputError(f"kinds must be 'auto', 'all', a kind or several, not {kinds!r}")
    parsed = {Kind.parse(kind) for kind in kinds}
    if not parsed:
        raise InputError("kinds is empty: no document could match; use 'all'")
    return parsed


def _join(
    first: Mapping[str, Any] | None, second: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    if first and second:
        return {"$and": [first, second]}
    return second if first is None else first
