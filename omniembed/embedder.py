"""From documents and queries to vectors in the shared space."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .errors import (
    EmptyInputError,
    ImageError,
    InputError,
    InputTypeError,
    OmniEmbedError,
    TruncationWarning,
)
from .experts import ExpertRegistry
from .inputs import DocumentInput, as_documents, as_queries
from .models.arrays import Floats
from .models.images import load_rgb, to_pixels
from .models.model import Model
from .models.session import available_processors
from .models.tokens import Tokens
from .types import Document, ImageInput, Kind, Query, QueryInput, Route

_IMAGES_AT_ONCE = 64


@dataclass(frozen=True)
class EncodedDocuments:
    """Vectors of the documents that could be embedded.

    Attributes:
        vectors: float32 (m, dim), unit norm.
        kept: positions of the m documents in the input, ascending.
        failures: positions of the others, with the reason.
        truncated: number of documents longer than the model reads.
    """

    vectors: Floats
    kept: list[int]
    failures: list[tuple[int, OmniEmbedError]]
    truncated: int


@dataclass(frozen=True)
class EncodedQueries:
    """Query vectors and how they came about; row i belongs to query i.

    Attributes:
        vectors: float32 (n, dim), unit norm.
        routes: one a query.
    """

    vectors: Floats
    routes: list[Route]


class Embedder:
    """Encodes documents with the base, and queries with the base or an expert.

    Args:
        model: the frozen base.
        experts: the experts that may serve queries; those bundled with the model when omitted.
    """

    def __init__(self, model: Model, experts: ExpertRegistry | None = None) -> None:
        self.model = model
        self._given_experts = experts

    @cached_property
    def experts(self) -> ExpertRegistry:
        """The experts that may serve queries."""
        if self._given_experts is not None:
            return self._given_experts
        return ExpertRegistry(self.model.manifest, self.model.directory / "experts")

    @property
    def dim(self) -> int:
        """Width of the shared space."""
        return self.model.manifest.dim

    def embed_documents(self, documents: Iterable[DocumentInput]) -> Floats:
        """Embed documents; all or none.

        Args:
            documents: texts, images (paths or pictures) or ``Document`` objects.

        Returns:
            float32 (n, dim), unit norm, in order; (0, dim) for none.

        Raises:
            InputError: for a document that cannot be embedded, naming its position.
            InputTypeError: for an input of another type.
        """
        encoded = self.encode_documents(as_documents(documents))
        if encoded.failures:
            raise encoded.failures[0][1]
        _warn_truncated(encoded.truncated, self.model.manifest.max_tokens)
        return encoded.vectors

    def encode_documents(self, documents: Sequence[Document]) -> EncodedDocuments:
        """Embed what can be embedded, and say why the rest cannot.

        Args:
            documents: documents of any kinds.

        Returns:
            Vectors, and a typed error for every document without one.
        """
        vectors = np.empty((len(documents), self.dim), np.float32)
        failures: dict[int, OmniEmbedError] = {}
        pictures: list[tuple[int, ImageInput]] = []
        texts: list[tuple[int, str]] = []
        for row, document in enumerate(documents):
            if document.kind is not Kind.IMAGE:
                texts.append((row, document.content))
            elif document.image is None:
                failures[row] = ImageError("a document of kind 'image' needs an image", index=row)
            else:
                pictures.append((row, document.image))
        truncated = self._encode_texts(texts, vectors, failures)
        self._encode_pictures(pictures, vectors, failures)
        kept = [row for row in range(len(documents)) if row not in failures]
        return EncodedDocuments(vectors[kept], kept, sorted(failures.items()), truncated)

    def embed_queries(
        self, queries: Iterable[QueryInput], *, expert: str = "auto"
    ) -> EncodedQueries:
        """Embed queries; all or none.

        Args:
            queries: texts, images, (image, modification) pairs or ``Query`` objects, mixed freely.
            expert: ``"auto"``, ``"base"`` or the name of an expert.

        Returns:
            Vectors and routes.

        Raises:
            UnknownExpertError: before anything is computed.
            InputError: for a query that cannot be embedded, naming its position.
            InputTypeError: for an input of another type.
        """
        experts = self.experts.state
        # The gate keeps to the base until experts bring pilots and a calibration.
        name = "base" if expert == "auto" else expert
        row, strength = experts.row(name), experts.strength(name)
        parsed = as_queries(queries)
        vectors = np.zeros((len(parsed), self.dim), np.float32)
        tokens = self._query_tokens(parsed)
        if tokens:
            output = self.model.text.encode(
                list(tokens.values()),
                experts=np.full((len(tokens), 1), row, np.int64),
                weights=np.full((len(tokens), 1), strength, np.float32),
                bank=experts.bank if row else None,
            )
            vectors[list(tokens)] += output.vectors
        pictures = [(at, q.image) for at, q in enumerate(parsed) if q.image is not None]
        failures: dict[int, OmniEmbedError] = {}
        seen = np.zeros_like(vectors)
        self._encode_pictures(pictures, seen, failures)
        if failures:
            raise failures[min(failures)]
        # A composed query is the normalised sum of its parts.
        vectors = _unit(vectors + seen)
        cut = [at in tokens and tokens[at].truncated for at in range(len(parsed))]
        _warn_truncated(sum(cut), self.model.manifest.max_tokens)
        routes = [
            Route(
                # A picture alone passes through no adapter.
                expert=name if at in tokens else "base",
                abstained=expert == "auto",
                truncated=cut[at],
            )
            for at in range(len(parsed))
        ]
        return EncodedQueries(vectors, routes)

    def _query_tokens(self, queries: Sequence[Query]) -> dict[int, Tokens]:
        rows = [row for row, query in enumerate(queries) if query.text is not None]
        if not rows:
            return {}
        tokens = self.model.text.tokenizer.encode([_query_text(queries[row]) for row in rows])
        for row, item in zip(rows, tokens, strict=True):
            if item.empty:
                raise _nothing_to_read("query", row, queries[row].text or "")
        return dict(zip(rows, tokens, strict=True))

    def _encode_texts(
        self,
        texts: Sequence[tuple[int, str]],
        vectors: Floats,
        failures: dict[int, OmniEmbedError],
    ) -> int:
        """Fill the rows of texts; return how many were truncated."""
        if not texts:
            return 0
        readable = []
        tokens = self.model.text.tokenizer.encode([text for _, text in texts])
        for (row, text), item in zip(texts, tokens, strict=True):
            if item.empty:
                failures[row] = _nothing_to_read("document", row, text)
            else:
                readable.append((row, item))
        if readable:
            output = self.model.text.encode([item for _, item in readable])
            vectors[[row for row, _ in readable]] = output.vectors
        return sum(item.truncated for _, item in readable)

    def _encode_pictures(
        self,
        pictures: Sequence[tuple[int, ImageInput]],
        vectors: Floats,
        failures: dict[int, OmniEmbedError],
    ) -> None:
        """Fill the rows of pictures, a bounded number of decoded ones at a time."""
        for start in range(0, len(pictures), _IMAGES_AT_ONCE):
            decoded = []
            for row, pixels in self._decode(pictures[start : start + _IMAGES_AT_ONCE]):
                if isinstance(pixels, OmniEmbedError):
                    failures[row] = pixels
                else:
                    decoded.append((row, pixels))
            if decoded:
                output = self.model.vision.encode([pixels for _, pixels in decoded])
                vectors[[row for row, _ in decoded]] = output.vectors

    def _decode(
        self, pictures: Sequence[tuple[int, ImageInput]]
    ) -> Iterator[tuple[int, NDArray[np.uint8] | OmniEmbedError]]:
        preprocessing = self.model.vision.preprocessing

        def decode(item: tuple[int, ImageInput]) -> NDArray[np.uint8] | OmniEmbedError:
            row, image = item
            try:
                return to_pixels(load_rgb(image, index=row), preprocessing)
            except (InputError, InputTypeError) as error:
                return error

        # Pillow decodes without the interpreter lock.
        with ThreadPoolExecutor(available_processors()) as pool:
            results = list(pool.map(decode, pictures))
        yield from zip((row for row, _ in pictures), results, strict=True)


def _query_text(query: Query) -> str:
    text = query.text or ""
    return f"{query.instruction} {text}" if query.instruction else text


def _nothing_to_read(what: str, row: int, text: str) -> EmptyInputError:
    return EmptyInputError(
        f"{what} {row} holds nothing that can be embedded: {text[:40]!r}; give at least one word"
    )


def _unit(vectors: Floats) -> Floats:
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norm, 1e-12), dtype=np.float32)


def _warn_truncated(count: int, max_tokens: int) -> None:
    if count:
        warnings.warn(
            f"{count} of the texts had more than {max_tokens} tokens; only their beginning was "
            "embedded. Split them to embed the rest.",
            TruncationWarning,
            stacklevel=3,
        )
