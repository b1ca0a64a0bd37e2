"""Pictures through the vision tower, a bounded number of decoded ones at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .errors import InputError, InputTypeError, OmniEmbedError
from .models.arrays import Floats
from .models.images import load_rgb, to_pixels
from .models.model import Model
from .models.session import available_processors
from .types import ImageInput

_AT_ONCE = 64


@dataclass(frozen=True)
class EncodedPictures:
    """What became of a batch of pictures.

    Attributes:
        rows: positions of the pictures that could be read, ascending.
        vectors: float32 (m, dim), unit norm; row i belongs to ``rows[i]``.
        features: float32 (m, features), what the vision tower saw.
        failures: typed errors by position.
    """

    rows: list[int]
    vectors: Floats
    features: Floats
    failures: dict[int, OmniEmbedError]


def encode_pictures(model: Model, pictures: Sequence[tuple[int, ImageInput]]) -> EncodedPictures:
    """Embed pictures.

    Args:
        model: the base.
        pictures: position in the caller's batch, and the picture.

    Returns:
        Vectors of those that could be read, and errors for the others.
    """
    rows: list[int] = []
    vectors = [np.empty((0, model.manifest.dim), np.float32)]
    features: list[Floats] = []
    failures: dict[int, OmniEmbedError] = {}
    for start in range(0, len(pictures), _AT_ONCE):
        decoded = []
        for row, pixels in _decode(model, pictures[start : start + _AT_ONCE]):
            if isinstance(pixels, OmniEmbedError):
                failures[row] = pixels
            else:
                rows.append(row)
                decoded.append(pixels)
        if decoded:
            output = model.vision.encode(decoded)
            vectors.append(output.vectors)
            features.append(output.features)
    seen = np.concatenate(features) if features else np.empty((0, 0), np.float32)
    return EncodedPictures(rows, np.concatenate(vectors), seen, failures)


def _decode(
    model: Model, pictures: Sequence[tuple[int, ImageInput]]
) -> Iterator[tuple[int, NDArray[np.uint8] | OmniEmbedError]]:
    preprocessing = model.vision.preprocessing

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
