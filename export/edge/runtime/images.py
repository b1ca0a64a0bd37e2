"""Pictures: from a file or a ``PIL.Image`` to pixels, to vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .files import Floats, open_session
from .routes import EdgeError

if TYPE_CHECKING:
    from PIL.Image import Image

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
_MAX_PIXELS = 100_000_000
_BATCH = 4


class VisionTower:
    """The vision trunk and head.

    Args:
        folder: of the bundle.
        preprocessing: ``image`` of ``bundle.json``.
        threads: processor threads of one call.
    """

    def __init__(self, folder: Path, preprocessing: Mapping[str, Any], threads: int) -> None:
        self._preprocessing = preprocessing
        self._trunk = open_session(folder / "image.onnx", threads)
        self._head = open_session(folder / "image_head.onnx", threads)

    def encode(self, pictures: Sequence[Path | Image]) -> tuple[Floats, Floats]:
        """Encode pictures.

        Args:
            pictures: paths or loaded pictures.

        Returns:
            Vectors, float32 (n, dim), unit norm, and features, float32 (n, features).
        """
        vectors, features = [], []
        for start in range(0, len(pictures), _BATCH):
            batch = [
                to_pixels(load_rgb(one), **self._preprocessing) for one in pictures[start:][:_BATCH]
            ]
            seen, logits = self._trunk.run(("features", "logits"), {"pixels": np.stack(batch)})
            (found,) = self._head.run(("vector",), {"features": seen, "logits": logits})
            vectors.append(found)
            features.append(seen)
        return np.concatenate(vectors), np.concatenate(features)


def load_rgb(image: Path | Image) -> Image:
    """Decode a picture as a person would see it.

    Args:
        image: a path or a loaded picture.

    Returns:
        An RGB picture: turned upright, transparency on white, 16-bit samples scaled.

    Raises:
        EdgeError: when it is too large or cannot be decoded.
    """
    from PIL import Image as PILImage
    from PIL import ImageOps

    try:
        if isinstance(image, Path):
            PILImage.init()
            picture: Image = PILImage.open(image, formats=_FORMATS)
        else:
            picture = image
        if picture.width * picture.height > _MAX_PIXELS:
            raise EdgeError(f"{image} has {picture.size} pixels, more than {_MAX_PIXELS}")
        picture.load()
        picture = ImageOps.exif_transpose(picture)
    except EdgeError:
        raise
    except Exception as error:
        raise EdgeError(f"cannot read the picture {image}: {error}") from error
    if picture.mode in {"I", "F"} or picture.mode.startswith("I;"):
        picture = _scale_samples(picture)
    if picture.mode in {"LA", "PA", "RGBA", "La", "RGBa"} or "transparency" in picture.info:
        layer = picture.convert("RGBA")
        picture = PILImage.new("RGBA", layer.size, "white")
        picture.alpha_composite(layer)
    return picture.convert("RGB")


def _scale_samples(picture: Image) -> Image:
    """Bring wide grey samples to 8 bit; Pillow's own conversion would clip them."""
    from PIL import Image as PILImage

    samples = np.nan_to_num(np.asarray(picture, np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(samples.min()), float(samples.max())
    if picture.mode.startswith("I;16") or (picture.mode == "I" and low >= 0 and high <= 65535):
        low, high = 0.0, 65535.0
    elif low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    elif low >= 0 and high <= 255:
        low, high = 0.0, 255.0
    scaled = np.round((samples - low) / (high - low or 1.0) * 255).clip(0, 255)
    return PILImage.fromarray(scaled.astype(np.uint8), "L")


def to_pixels(picture: Image, size: int, crop: float, resample: str) -> NDArray[np.uint8]:
    """Resize the shorter side and cut the centre square.

    Args:
        picture: an RGB picture.
        size: side of the square.
        crop: share of the resized picture's shorter side that the square keeps.
        resample: Pillow's name of the filter, lower case.

    Returns:
        uint8 (size, size, 3).
    """
    from PIL import Image as PILImage

    width, height = picture.size
    scale = math.floor(size / crop) / min(width, height)
    # A strip is cut to a square's reach first: resizing it whole could need gigabytes.
    reach = max(1, min(width, height) * 2)
    w, h = min(width, reach), min(height, reach)
    left, top = (width - w) // 2, (height - h) // 2
    wide, high = max(size, round(w * scale)), max(size, round(h * scale))
    kernel: Any = PILImage.Resampling[resample.upper()]
    resized = picture.resize((wide, high), kernel, box=(left, top, left + w, top + h))
    x, y = round((wide - size) / 2), round((high - size) / 2)
    return np.asarray(resized.crop((x, y, x + size, y + size)), np.uint8)
