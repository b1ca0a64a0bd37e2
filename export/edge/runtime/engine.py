"""A loaded bundle: documents and queries to vectors, queries to hits."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np

from .composed import combine, pseudo_words, unit
from .files import Floats, read_description, read_tensors
from .images import VisionTower
from .index import Hit, Index
from .kinds import Kinds
from .routes import EdgeError, Route
from .text import GATE, Encoded, TextTower, Tokens

if TYPE_CHECKING:
    from PIL.Image import Image

Picture: TypeAlias = Union[Path, "Image"]
DocumentInput: TypeAlias = str | Picture | Mapping[str, Any]
QueryInput: TypeAlias = str | Picture | tuple[Picture, str]

_BASE = "base"
_KINDS = ("text", "code", "image", "tool")


def load(folder: str | Path | None = None, *, threads: int | None = None) -> Edge:
    """Load a bundle.

    Args:
        folder: of the bundle; the one that this package lies in when omitted.
        threads: processor threads of one call; all when omitted.

    Returns:
        The engine.

    Raises:
        EdgeError: when the folder is no bundle.
    """
    found = Path(folder) if folder is not None else Path(__file__).resolve().parent.parent
    return Edge(found, threads=threads or os.cpu_count() or 1)


class Edge:
    """Embeds, routes and searches. Files are opened on first use.

    Args:
        folder: of the bundle.
        threads: processor threads of one call.

    Raises:
        EdgeError: when the folder is no bundle.
    """

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        self.folder = folder
        self.description = read_description(folder)
        self.experts: dict[str, dict[str, Any]] = {
            one["name"]: one for one in self.description["experts"]
        }
        self._threads = threads
        self._names = [_BASE, *self.experts]

    @cached_property
    def index(self) -> Index:
        """The documents that came with the bundle; assign another to search it."""
        return Index.read(self.folder / "index")

    @cached_property
    def _steering(self) -> dict[str, Any]:
        return read_tensors(self.folder / "steering.safetensors")

    @cached_property
    def _text(self) -> TextTower:
        return TextTower(self.folder, self.description, self._steering, self._threads)

    @cached_property
    def _vision(self) -> VisionTower:
        if self.description["image"] is None:
            raise EdgeError("this bundle reads text only; export it with images")
        return VisionTower(self.folder, self.description["image"], self._threads)

    def embed_documents(self, documents: Sequence[DocumentInput]) -> Floats:
        """Embed documents with the base.

        Args:
            documents: texts, pictures, or mappings with ``text`` and ``title``, or with ``image``.

        Returns:
            float32 (n, dim), unit norm, in order.

        Raises:
            EdgeError: for a document that cannot be embedded, naming its position.
        """
        vectors = np.zeros((len(documents), self.description["dim"]), np.float32)
        texts, pictures = {}, {}
        for at, document in enumerate(documents):
            read = _content(document)
            if isinstance(read, str):
                texts[at] = read
            else:
                pictures[at] = read
        if texts:
            tokens = self._tokens("document", texts)
            vectors[list(tokens)] = self._text.encode(list(tokens.values())).vectors
        if pictures:
            vectors[list(pictures)] = self._vision.encode(list(pictures.values()))[0]
        return vectors

    def embed_queries(self, queries: Sequence[QueryInput], *, expert: str = "auto") -> Floats:
        """Embed queries, mixed freely.

        Args:
            queries: texts, pictures, or pairs of a picture and the change wanted in it.
            expert: ``"auto"``, ``"base"`` or the name of an expert.

        Returns:
            float32 (n, dim), unit norm, in order.

        Raises:
            EdgeError: for an unknown expert or a query that cannot be embedded.
        """
        return self.encode_queries(queries, expert=expert)[0]

    def route(self, query: QueryInput) -> Route:
        """Tell how a query would be encoded.

        Args:
            query: see :meth:`embed_queries`.

        Returns:
            The route.
        """
        return self.encode_queries([query])[1][0]

    def search(
        self,
        query: QueryInput,
        *,
        top_k: int = 10,
        kinds: str | Collection[str] = "auto",
        expert: str = "auto",
    ) -> list[Hit]:
        """Find documents in :attr:`index`.

        Args:
            query: see :meth:`embed_queries`.
            top_k: number of hits wanted.
            kinds: document kinds to search: a kind or several; ``"all"``; ``"auto"`` for those
                that the query is almost surely after (``Route.kinds``), and all where that does
                not show or these are fewer than ``top_k``.
            expert: ``"auto"``, ``"base"`` or the name of an expert.

        Returns:
            Best first.

        Raises:
            EdgeError: for a query or option that cannot be used.
        """
        if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
            raise EdgeError(f"top_k must be a whole number above 0, not {top_k!r}")
        auto, wanted = kinds == "auto", _parse_kinds(kinds)
        vectors, routes = self.encode_queries([query], expert=expert)
        found = self.index.nearest(vectors[0], top_k, routes[0].kinds if auto else wanted)
        if auto and len(found) < top_k:
            # The index may hold few documents of the kinds guessed at: better all than too few.
            found = self.index.nearest(vectors[0], top_k, None)
        return [Hit(score, document, routes[0]) for score, document in found]

    def encode_queries(
        self, queries: Sequence[QueryInput], *, expert: str = "auto"
    ) -> tuple[Floats, list[Route]]:
        """Embed queries and tell how.

        Args:
            queries: see :meth:`embed_queries`.
            expert: ``"auto"``, ``"base"`` or the name of an expert.

        Returns:
            float32 (n, dim), unit norm, and a route each.

        Raises:
            EdgeError: for an unknown expert or a query that cannot be embedded.
        """
        if expert not in ("auto", *self._names):
            raise EdgeError(f"unknown expert {expert!r}; known: auto, {', '.join(self._names)}")
        parsed = [_parse(query, at) for at, query in enumerate(queries)]
        texts = {at: text for at, (_, text) in enumerate(parsed) if text is not None}
        seen = {at: image for at, (image, _) in enumerate(parsed) if image is not None}
        tokens = self._tokens("query", texts) if texts else {}
        vectors = np.zeros((len(queries), self.description["dim"]), np.float32)
        routes = [
            Route(truncated=at in tokens and tokens[at].truncated) for at in range(len(parsed))
        ]
        features = np.empty((0, 0), np.float32)
        if seen:
            vectors[list(seen)], features = self._vision.encode(list(seen.values()))
        plain = [at for at in tokens if at not in seen]
        if plain:
            vectors[plain], own = self._plain([tokens[at] for at in plain], expert)
            for at, route in zip(plain, own, strict=True):
                routes[at] = route
        both = [at for at in tokens if at in seen]
        if both:
            name = self._composer() if expert == "auto" else expert
            places = [list(seen).index(at) for at in both]
            vectors[both] = self._composed(
                [tokens[at] for at in both], name, vectors[both], features[places]
            )
            for at in both:
                kinds = self.experts[name]["kinds"] if name != _BASE else None
                routes[at] = Route(expert=name, truncated=tokens[at].truncated, kinds=kinds)
        return vectors, routes

    def _plain(self, tokens: list[Tokens], expert: str) -> tuple[Floats, list[Route]]:
        if expert != "auto" or self.description["gate"] is None:
            name = _BASE if expert == "auto" else expert
            asked = expert == "auto"
            route = [
                Route(name, 0.0 if asked else 1.0, abstained=asked, truncated=one.truncated)
                for one in tokens
            ]
            return self._forced(tokens, name).vectors, route
        output = self._text.encode(tokens, row=GATE)
        asked_rows = {int(owner) for owner in self._steering["pilot_owners"] if owner}
        routes = []
        for at, one in enumerate(tokens):
            served = int(output.chosen[at])
            values = output.confidence[at].tolist()
            routes.append(
                Route(
                    expert=self._names[served],
                    confidence=values[served] if served else max(values),
                    scores={
                        name: values[row]
                        for row, name in enumerate(self._names)
                        if row in asked_rows
                    },
                    abstained=served == 0,
                    truncated=one.truncated,
                    kinds=self._kinds.likely(output.states[at], self._names[served]),
                )
            )
        return output.vectors, routes

    @cached_property
    def _kinds(self) -> Kinds:
        return Kinds(self.description["gate"], self._steering)

    def _composer(self) -> str:
        able = [name for name, one in self.experts.items() if one["composed"]]
        return able[-1] if able else _BASE

    def _composed(
        self, tokens: list[Tokens], name: str, pictures: Floats, features: Floats
    ) -> Floats:
        mark = f"composed.{name}."
        parts = {
            key[len(mark) :]: array for key, array in self._steering.items() if key.startswith(mark)
        }
        if not parts:
            return unit(self._forced(tokens, name).vectors + pictures)
        prefix = pseudo_words(parts, features, pictures)
        return combine(parts, self._forced(tokens, name, prefix).vectors, pictures)

    def _forced(self, tokens: list[Tokens], name: str, prefix: Floats | None = None) -> Encoded:
        strength = float(self.experts[name]["strength"]) if name != _BASE else 0.0
        row = self._names.index(name)
        return self._text.encode(tokens, row=row, weight=strength, prefix=prefix)

    def _tokens(self, what: str, texts: Mapping[int, str]) -> dict[int, Tokens]:
        tokens = dict(zip(texts, self._text.tokenize(list(texts.values())), strict=True))
        for at, one in tokens.items():
            if one.empty:
                raise EdgeError(f"{what} {at} holds nothing to read: {texts[at][:40]!r}")
        return tokens


def _parse_kinds(kinds: str | Collection[str]) -> set[str] | None:
    if kinds in ("auto", "all"):
        return None
    wanted = {kinds} if isinstance(kinds, str) else set(kinds)
    unknown = sorted(wanted - set(_KINDS))
    if unknown or not wanted:
        known = ", ".join(("auto", "all", *_KINDS))
        raise EdgeError(f"unknown kinds {unknown or kinds!r}; known: {known}")
    return wanted


def _content(document: DocumentInput) -> str | Picture:
    if not isinstance(document, Mapping):
        return document
    if document.get("image") is not None:
        picture: Picture = document["image"]
        return picture
    text, title = str(document.get("text", "")), str(document.get("title", ""))
    return f"{title}\n{text}" if title and not text.startswith(title) else text


def _parse(query: QueryInput, at: int) -> tuple[Picture | None, str | None]:
    if isinstance(query, str):
        return None, query
    if isinstance(query, tuple):
        if len(query) != 2 or isinstance(query[0], str) or not isinstance(query[1], str):
            raise EdgeError(f"query {at} must be (picture, text); a picture is a Path or PIL.Image")
        return query[0], query[1]
    return query, None
