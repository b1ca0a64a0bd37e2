"""Pictures through the vision tower, a bounded number of decoded ones at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .errors import InputError, InputTypeError, OmniEmbedError
from .models.arrays import AdapterBank, Floats
from .models.images import load_rgb, to_pixels
from .models.model import Model
from .models.session import available_processors
from .models.vision import ImageOutput
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


@dataclass(frozen=True)
class PictureAdapter:
    """An expert whose adapter reaches the vision tower.

    Attributes:
        bank: the adapters.
        row: of the expert in the bank.
        strength: of its adapter.
        positions: pictures it serves; the others go through the base.
    """

    bank: AdapterBank
    row: int
    strength: float
    positions: frozenset[int]


def encode_pictures(
    model: Model,
    pictures: Sequence[tuple[int, ImageInput]],
    adapter: PictureAdapter | None = None,
) -> EncodedPictures:
    """Embed pictures.

    Args:
        model: the base.
        pictures: position in the caller's batch, and the picture.
        adapter: for some of them; the base for all when omitted.

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
            output = _encode(model, decoded, rows[-len(decoded) :], adapter)
            vectors.append(output.vectors)
            features.append(output.features)
    seen = np.concatenate(features) if features else np.empty((0, 0), np.float32)
    return EncodedPictures(rows, np.concatenate(vectors), seen, failures)


def _encode(
    model: Model,
    pixels: Sequence[NDArray[np.uint8]],
    positions: Sequence[int],
    adapter: PictureAdapter | None,
) -> ImageOutput:
    if adapter is None:
        return model.vision.encode(pixels)
    served = np.array([[at in adapter.positions] for at in positions])
    return model.vision.encode(
        pixels,
        experts=np.where(served, adapter.row, 0).astype(np.int64),
        weights=np.full(served.shape, adapter.strength, np.float32),
        bank=adapter.bank,
    )


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
