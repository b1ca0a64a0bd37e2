"""Document vectors of the frozen base, computed once and kept on disk."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from ...errors import ImageError, InputError
from ...models.arrays import Floats
from ...models.images import load_rgb, to_pixels
from ...models.model import Model
from ...types import Document, Kind

logger = logging.getLogger(__name__)

_SHARD = 1024
"""Documents written at a time; what an interrupted run loses at most."""

_KEY_BYTES = 16


class DocumentEncoder(Protocol):
    """A frozen encoder of documents."""

    @property
    def fingerprint(self) -> str:
        """Identifies the weights."""

    @property
    def dim(self) -> int:
        """Width of the vectors."""

    def encode(self, documents: Sequence[Document]) -> Floats:
        """Encode documents.

        Args:
            documents: of any kind.

        Returns:
            float32 (n, dim), unit norm.
        """


class ModelEncoder:
    """Encodes documents with a model directory, as the store does.

    Args:
        model: the base.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the model."""
        return self._model.manifest.fingerprint

    @property
    def dim(self) -> int:
        """Width of the shared space."""
        return self._model.manifest.dim

    def encode(self, documents: Sequence[Document]) -> Floats:
        """Encode documents.

        Args:
            documents: texts and pictures, mixed freely.

        Returns:
            float32 (n, dim), unit norm.

        Raises:
            InputError: when a document holds nothing to embed.
        """
        vectors = np.empty((len(documents), self.dim), np.float32)
        pictures = [row for row, one in enumerate(documents) if one.kind is Kind.IMAGE]
        texts = [row for row, one in enumerate(documents) if one.kind is not Kind.IMAGE]
        if texts:
            tokens = self._model.text.tokenizer.encode([documents[row].content for row in texts])
            for row, item in zip(texts, tokens, strict=True):
                if item.empty:
                    raise InputError(f"document {documents[row].id!r} holds nothing to embed")
            vectors[texts] = self._model.text.encode(tokens).vectors
        if pictures:
            preprocessing = self._model.vision.preprocessing
            pixels = [
                to_pixels(load_rgb(_picture(documents[row])), preprocessing) for row in pictures
            ]
            vectors[pictures] = self._model.vision.encode(pixels).vectors
        return vectors


class VectorCache:
    """Vectors by document content; each is computed once per encoder.

    Shards are written whole and renamed into place, so that an interrupted run resumes. Runs
    that share a folder may both compute a document; they never damage each other.

    Args:
        folder: where vectors are kept; a folder of its own for every encoder is made inside.
        encoder: the frozen base.
    """

    def __init__(self, folder: Path, encoder: DocumentEncoder) -> None:
        self._folder = folder / encoder.fingerprint
        self._encoder = encoder
        self._known: dict[bytes, Floats] = {}
        self._loaded: set[str] = set()

    def vectors(self, documents: Sequence[Document]) -> Floats:
        """Look up or compute vectors.

        Args:
            documents: of any kinds, repeated or not.

        Returns:
            float32 (n, dim), unit norm, in order.
        """
        self._load()
        keys = [_key(document) for document in documents]
        missing = {
            key: one for key, one in zip(keys, documents, strict=True) if key not in self._known
        }
        # Longest first: batches of one length, and a progress that speeds up.
        pending = sorted(missing.items(), key=lambda item: -len(item[1].content))
        for start in range(0, len(pending), _SHARD):
            self._compute(dict(pending[start : start + _SHARD]))
            logger.info(
                "embedded %d of %d documents", min(start + _SHARD, len(pending)), len(pending)
            )
        if not keys:
            return np.empty((0, self._encoder.dim), np.float32)
        return np.stack([self._known[key] for key in keys])

    def _compute(self, documents: dict[bytes, Document]) -> None:
        vectors = self._encoder.encode(list(documents.values()))
        keys = np.frombuffer(b"".join(documents), np.uint8).reshape(-1, _KEY_BYTES)
        self._folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(keys.tobytes()).hexdigest()[:16] + ".npz"
        partial = self._folder / f"{name}.{os.getpid()}.partial"
        with partial.open("wb") as stream:
            np.savez(stream, keys=keys, vectors=vectors)
        partial.replace(self._folder / name)
        self._loaded.add(name)
        self._known.update(zip(documents, vectors, strict=True))

    def _load(self) -> None:
        for path in sorted(self._folder.glob("*.npz")):
            if path.name in self._loaded:
                continue
            with np.load(path, allow_pickle=False) as shard:
                keys, vectors = shard["keys"], shard["vectors"]
            self._known.update((key.tobytes(), row) for key, row in zip(keys, vectors, strict=True))
            self._loaded.add(path.name)


def _key(document: Document) -> bytes:
    digest = hashlib.sha256(document.content.encode("utf-8", "replace"))
    if document.kind is Kind.IMAGE:
        digest.update(b"\0image\0" + _picture(document).read_bytes())
    return digest.digest()[:_KEY_BYTES]


def _picture(document: Document) -> Path:
    if not isinstance(document.image, Path):
        raise ImageError(
            f"document {document.id!r} of kind 'image' needs the path of an image file"
        )
    return document.image
