"""Pixel views of a stored image: the deployed one and its augmentations."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

SIDE = 224
RESIZED = 256
DEPLOYED = "center"


def _fit(image: Image.Image) -> Image.Image:
    scale = RESIZED / min(image.size)
    width, height = (max(RESIZED, round(side * scale)) for side in image.size)
    image = image.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - SIDE) // 2, (height - SIDE) // 2
    return image.crop((left, top, left + SIDE, top + SIDE))


def _random_crop(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    width, height = image.size
    area = width * height * rng.uniform(0.45, 1.0)
    ratio = math.exp(rng.uniform(math.log(0.75), math.log(4 / 3)))
    across = min(width, max(1, round(math.sqrt(area * ratio))))
    down = min(height, max(1, round(math.sqrt(area / ratio))))
    left = int(rng.integers(0, width - across + 1))
    top = int(rng.integers(0, height - down + 1))
    box = (left, top, left + across, top + down)
    return image.resize((SIDE, SIDE), Image.Resampling.BICUBIC, box=box)


def load_view(path: Path, view: str) -> npt.NDArray[np.uint8]:
    """Read one view of an image.

    Args:
        path: Image file.
        view: ``center`` (resize the short side to 256, crop 224 from the middle: the form
            that is deployed), ``flip`` (the same, mirrored), ``whole`` (the whole image
            squeezed into the square) or ``cropN`` (a random crop, fixed by the file name
            and N, mirrored half of the time for odd N).

    Returns:
        Pixels, uint8 [224, 224, 3].

    Raises:
        ValueError: The view is unknown.
    """
    with Image.open(path) as opened:
        image = opened.convert("RGB")
    if view == "center":
        image = _fit(image)
    elif view == "flip":
        image = _fit(image).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    elif view == "whole":
        image = image.resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    elif view.startswith("crop"):
        digest = hashlib.sha256(f"{view}/{path.name}".encode()).digest()
        image = _random_crop(image, np.random.default_rng(int.from_bytes(digest[:8], "big")))
    else:
        raise ValueError(f"unknown view {view!r}; use center, flip, whole or cropN")
    return np.asarray(image, np.uint8)
