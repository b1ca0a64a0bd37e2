"""From documents and queries to vectors in the shared space."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .errors import (
    ImageError,
    OmniEmbedError,
    TruncationWarning,
)
from .experts import ExpertRegistry, InstalledPacks
from .inputs import DocumentInput, as_documents, as_queries
from .models.arrays import Floats
from .models.model import Model
from .pictures import encode_pictures
from .query_encoder import EncodedQueries, QueryEncoder, nothing_to_read
from .router import explain
from .types import Document, ImageInput, Kind, QueryInput, Route


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
        manifest = self.model.manifest
        return ExpertRegistry(
            manifest,
            self.model.directory / "experts",
            installed=InstalledPacks(manifest.fingerprint),
            model=self.model,
        )

    @cached_property
    def query_encoder(self) -> QueryEncoder:
        """Encodes queries, with the gate and the experts."""
        return QueryEncoder(self.model, self.experts)

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
        seen = encode_pictures(self.model, pictures)
        vectors[seen.rows] = seen.vectors
        failures |= seen.failures
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
        encoded = self.query_encoder.encode(as_queries(queries), expert)
        cut = sum(route.truncated for route in encoded.routes)
        _warn_truncated(cut, self.model.manifest.max_tokens)
        return encoded

    def explain_queries(self, queries: Iterable[QueryInput]) -> list[Route]:
        """Route queries, and say why.

        Args:
            queries: as for :meth:`embed_queries`.

        Returns:
            One a query, with the nearest pilots and the reason.

        Raises:
            InputError: for a query that cannot be embedded, naming its position.
            InputTypeError: for an input of another type.
        """
        parsed = as_queries(queries)
        encoded = self.embed_queries(parsed)
        packs, settings = self.experts.state.packs, self.query_encoder.settings
        return [
            explain(query, route, state, packs, settings)
            for query, route, state in zip(parsed, encoded.routes, encoded.states, strict=True)
        ]

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
                failures[row] = nothing_to_read("document", row, text)
            else:
                readable.append((row, item))
        if readable:
            output = self.model.text.encode([item for _, item in readable])
            vectors[[row for row, _ in readable]] = output.vectors
        return sum(item.truncated for _, item in readable)


def _warn_truncated(count: int, max_tokens: int) -> None:
    if count:
        warnings.warn(
            f"{count} of the texts had more than {max_tokens} tokens; only their beginning was "
            "embedded. Split them to embed the rest.",
            TruncationWarning,
            stacklevel=3,
        )
