"""The parts of a composed expert that are not an adapter: pseudo-words, correction, residual.

A query of a picture and a text passes through the text tower with the picture as pseudo-words
after the first token (Pic2Word, arXiv 2302.03084). The picture's own vector then joins with a
weight that the query decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..errors import PackError
from ..models.arrays import Floats

FILE_NAME = "composed.safetensors"
MAX_WORDS = 16

_EPSILON = 1e-5
_NAMES = {
    "norm_weight": "pseudo_words.norm.weight",
    "norm_bias": "pseudo_words.norm.bias",
    "words_inner": "pseudo_words.inner.weight",
    "words_inner_bias": "pseudo_words.inner.bias",
    "words_outer": "pseudo_words.outer.weight",
    "words_outer_bias": "pseudo_words.outer.bias",
    "correction_inner": "correction.inner.weight",
    "correction_inner_bias": "correction.inner.bias",
    "correction_outer": "correction.outer.weight",
    "correction_outer_bias": "correction.outer.bias",
    "share": "residual.weight.weight",
    "share_bias": "residual.weight.bias",
    "away": "residual.away",
    "direction": "direction",
}


@dataclass(frozen=True)
class ComposedParts:
    """Weights as stored: every matrix is (out, in), as in torch.

    Attributes:
        norm_weight: float32 (features,), of the norm ahead of the pseudo-words.
        norm_bias: float32 (features,).
        words_inner: float32 (hidden, features + dim).
        words_inner_bias: float32 (hidden,).
        words_outer: float32 (words * dim, hidden).
        words_outer_bias: float32 (words * dim,).
        correction_inner: float32 (hidden, 2 * dim).
        correction_inner_bias: float32 (hidden,).
        correction_outer: float32 (dim, hidden).
        correction_outer_bias: float32 (dim,).
        share: float32 (1, dim), how much of the picture a query keeps.
        share_bias: float32 (1,).
        away: float32 (), how far a query that keeps little moves off its picture.
        direction: float32 (dim,), unit norm; image vectors are freed of it before they are used.
    """

    norm_weight: Floats
    norm_bias: Floats
    words_inner: Floats
    words_inner_bias: Floats
    words_outer: Floats
    words_outer_bias: Floats
    correction_inner: Floats
    correction_inner_bias: Floats
    correction_outer: Floats
    correction_outer_bias: Floats
    share: Floats
    share_bias: Floats
    away: Floats
    direction: Floats

    @property
    def words(self) -> int:
        """Number of pseudo-words."""
        return len(self.words_outer) // len(self.direction)

    def prefix(self, features: Floats, vectors: Floats) -> Floats:
        """Turn pictures into pseudo-words.

        Args:
            features: float32 (n, features), of the vision tower.
            vectors: float32 (n, dim), unit norm, as documents have them.

        Returns:
            float32 (n, words, dim).
        """
        dim = len(self.direction)
        mean = features.mean(axis=1, keepdims=True)
        deviation = np.sqrt(features.var(axis=1, keepdims=True) + _EPSILON)
        normed = (features - mean) / deviation * self.norm_weight + self.norm_bias
        inputs = np.concatenate([normed, self._freed(vectors) * np.float32(dim**0.5)], axis=1)
        hidden = _gelu(inputs @ self.words_inner.T + self.words_inner_bias)
        words = hidden @ self.words_outer.T + self.words_outer_bias
        return np.asarray(words, np.float32).reshape(len(features), self.words, dim)

    def combine(self, queries: Floats, vectors: Floats) -> Floats:
        """Join what the text tower says with the picture's own vector.

        Args:
            queries: float32 (n, dim), unit norm, of the text tower.
            vectors: float32 (n, dim), unit norm, of the pictures, as documents have them.

        Returns:
            float32 (n, dim), unit norm.
        """
        scale = np.float32(len(self.direction) ** 0.5)
        pictures = self._freed(vectors)
        inputs = np.concatenate([queries, pictures], axis=1) * scale
        hidden = _gelu(inputs @ self.correction_inner.T + self.correction_inner_bias)
        correction = hidden @ self.correction_outer.T + self.correction_outer_bias
        share = 1 / (1 + np.exp(-((queries * scale) @ self.share.T + self.share_bias)))
        weight = share - self.away * (1 - share) ** 2
        return _unit(queries + correction + weight * pictures)

    def tensors(self) -> dict[str, Floats]:
        """Name the weights as :data:`FILE_NAME` does.

        Returns:
            Arrays by name.
        """
        return {_NAMES[field.name]: getattr(self, field.name) for field in fields(self)}

    def _freed(self, vectors: Floats) -> Floats:
        return _unit(vectors - (vectors @ self.direction)[:, None] * self.direction)


def parse_parts(name: str, tensors: Mapping[str, Floats], dim: int) -> ComposedParts:
    """Check the weights of a composed expert.

    Args:
        name: of the expert, for messages.
        tensors: arrays by the names of :data:`FILE_NAME`, finite.
        dim: width of the shared space.

    Returns:
        The parts.

    Raises:
        PackError: when an array is missing, unknown or of the wrong shape.
    """
    missing = sorted(set(_NAMES.values()) - tensors.keys())
    unknown = sorted(tensors.keys() - set(_NAMES.values()))
    if missing or unknown:
        raise PackError(
            f"expert {name!r}: {FILE_NAME} lacks {missing or 'nothing'} "
            f"and holds unknown {unknown or 'nothing'}"
        )
    found: dict[str, Any] = {field: tensors[stored] for field, stored in _NAMES.items()}
    features, hidden = found["norm_weight"].size, found["words_inner_bias"].size
    words, inner = found["words_outer_bias"].size // dim, found["correction_inner_bias"].size
    if not 1 <= words <= MAX_WORDS:
        raise PackError(f"expert {name!r} has {words} pseudo-words; 1 to {MAX_WORDS} can be used")
    shapes = {
        "norm_weight": (features,),
        "norm_bias": (features,),
        "words_inner": (hidden, features + dim),
        "words_inner_bias": (hidden,),
        "words_outer": (words * dim, hidden),
        "words_outer_bias": (words * dim,),
        "correction_inner": (inner, 2 * dim),
        "correction_inner_bias": (inner,),
        "correction_outer": (dim, inner),
        "correction_outer_bias": (dim,),
        "share": (1, dim),
        "share_bias": (1,),
        "away": (),
        "direction": (dim,),
    }
    for field, shape in shapes.items():
        if found[field].shape != shape:
            raise PackError(
                f"expert {name!r}: {_NAMES[field]} has shape {found[field].shape}, not {shape}"
            )
    return ComposedParts(**found)


def _gelu(x: Floats) -> Floats:
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)
    return np.asarray(0.5 * x * (1 + np.tanh(inner)), np.float32)


def _unit(rows: Floats) -> Floats:
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(norm, 1e-12), np.float32)
