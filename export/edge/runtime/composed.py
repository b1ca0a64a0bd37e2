"""Queries of a picture and a text: pseudo-words into the text tower, the picture joined after.

Names are those of ``composed.safetensors`` in an expert pack; matrices are (out, in).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .files import Floats


def unit(rows: Floats) -> Floats:
    """Scale rows to unit norm.

    Args:
        rows: float32 (n, d).

    Returns:
        The same shape.
    """
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(norm, 1e-12), np.float32)


def pseudo_words(parts: Mapping[str, Floats], features: Floats, pictures: Floats) -> Floats:
    """Turn pictures into word embeddings.

    Args:
        parts: of the composed expert.
        features: float32 (n, features), of the vision tower.
        pictures: float32 (n, dim), unit norm.

    Returns:
        float32 (n, words, dim).
    """
    dim = pictures.shape[1]
    deviation = np.sqrt(features.var(axis=1, keepdims=True) + 1e-5)
    normed = (features - features.mean(axis=1, keepdims=True)) / deviation
    normed = normed * parts["pseudo_words.norm.weight"] + parts["pseudo_words.norm.bias"]
    inputs = np.concatenate([normed, _freed(parts, pictures) * np.float32(dim**0.5)], axis=1)
    hidden = _gelu(_linear(parts, "pseudo_words.inner", inputs))
    words = _linear(parts, "pseudo_words.outer", hidden)
    return np.asarray(words, np.float32).reshape(len(features), -1, dim)


def combine(parts: Mapping[str, Floats], queries: Floats, pictures: Floats) -> Floats:
    """Join what the text tower says with the picture's own vector.

    Args:
        parts: of the composed expert.
        queries: float32 (n, dim), unit norm, of the text tower.
        pictures: float32 (n, dim), unit norm.

    Returns:
        float32 (n, dim), unit norm.
    """
    scale = np.float32(queries.shape[1] ** 0.5)
    freed = _freed(parts, pictures)
    inputs = np.concatenate([queries, freed], axis=1) * scale
    correction = _linear(
        parts, "correction.outer", _gelu(_linear(parts, "correction.inner", inputs))
    )
    share = 1 / (1 + np.exp(-_linear(parts, "residual.weight", queries * scale)))
    weight = share - parts["residual.away"] * (1 - share) ** 2
    return unit(np.asarray(queries + correction + weight * freed, np.float32))


def _freed(parts: Mapping[str, Floats], pictures: Floats) -> Floats:
    """Take out the direction that all pictures share."""
    direction = parts["direction"]
    along = (pictures @ direction)[:, None]
    return unit(np.asarray(pictures - along * direction, np.float32))


def _linear(parts: Mapping[str, Floats], name: str, rows: Floats) -> Floats:
    return np.asarray(rows @ parts[f"{name}.weight"].T + parts[f"{name}.bias"], np.float32)


def _gelu(x: Floats) -> Floats:
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)
    return np.asarray(0.5 * x * (1 + np.tanh(inner)), np.float32)
