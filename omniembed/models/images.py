"""Image intake: from a file or a ``PIL.Image`` to the pixels that the vision tower reads.

The order is that of DESIGN section 10: size cap before decoding, EXIF orientation, 16-bit and
float samples scaled to 8 bit, transparency laid on white, RGB, resize. Animations give their
first frame.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ImageDecodeError, ImageError, ImageTooLargeError, InputTypeError
from .manifest import ImagePreprocessing

if TYPE_CHECKING:
    from PIL.Image import Image

    from ..types import ImageInput


_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
"""Others are refused whatever their suffix: for EPS, Pillow would start Ghostscript."""


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """What is refused before decoding.

    Attributes:
        max_pixels: width times height.
        max_bytes: size of the file.
    """

    max_pixels: int = 100_000_000
    max_bytes: int = 100_000_000


def load_rgb(
    image: ImageInput, *, index: int | None = None, limits: ImageLimits = ImageLimits()
) -> Image:
    """Decode a picture as a person would see it.

    Args:
        image: a path, or a loaded picture (which is left as it is).
        index: position in the batch, for messages.
        limits: size caps.

    Returns:
        An 8-bit RGB picture.

    Raises:
        ImageTooLargeError: when a cap is exceeded; nothing was decoded.
        ImageDecodeError: when the file is missing, damaged or in no known format.
        InputTypeError: when ``image`` is neither a path nor a picture.
    """
    from PIL import Image as PILImage

    if isinstance(image, Path):
        return _load_file(image, index, limits)
    if not isinstance(image, PILImage.Image):
        raise InputTypeError(
            f"an image must be a pathlib.Path or a PIL.Image, not {type(image).__name__}"
        )
    return _decode(image, "the given PIL.Image", index, limits)


def _load_file(path: Path, index: int | None, limits: ImageLimits) -> Image:
    from PIL import Image as PILImage
    from PIL import UnidentifiedImageError

    try:
        size = path.stat().st_size
        if size > limits.max_bytes:
            raise ImageTooLargeError(
                f"{path} has {size} bytes, more than the limit of {limits.max_bytes}; "
                "save it smaller",
                index=index,
            )
        data = path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ImageDecodeError(f"cannot read {path}: {reason}", index=index) from error
    try:
        picture = _open_quietly(io.BytesIO(data))
    except PILImage.DecompressionBombError as error:
        raise ImageTooLargeError(f"{path}: {error}; scale it down", index=index) from error
    except UnidentifiedImageError as error:
        raise ImageDecodeError(
            f"{path} is in no image format that can be read; "
            "convert it to PNG, JPEG, WebP, GIF, BMP or TIFF",
            index=index,
        ) from error
    except Exception as error:
        raise ImageDecodeError(f"{path} is damaged: {error}", index=index) from error
    with picture:
        return _decode(picture, str(path), index, limits)


def _open_quietly(stream: io.BytesIO) -> Image:
    """Open without Pillow's size warning: the cap that follows is stricter and an error."""
    import warnings

    from PIL import Image as PILImage

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PILImage.DecompressionBombWarning)
        PILImage.init()  # with formats named, open() does not load their plugins itself
        return PILImage.open(stream, formats=_FORMATS)


def _decode(picture: Image, name: str, index: int | None, limits: ImageLimits) -> Image:
    width, height = picture.size
    if width * height > limits.max_pixels:
        raise ImageTooLargeError(
            f"{name} has {width} x {height} pixels, more than the limit of {limits.max_pixels}; "
            "scale it down",
            index=index,
        )
    if width == 0 or height == 0:
        raise ImageDecodeError(f"{name} has no pixels ({width} x {height})", index=index)
    try:
        from PIL import ImageOps

        picture.load()
        return _to_rgb(ImageOps.exif_transpose(picture))
    except ImageError:
        raise
    except Exception as error:
        raise ImageDecodeError(f"{name} is damaged: {error}", index=index) from error


def _to_rgb(picture: Image) -> Image:
    from PIL import Image as PILImage

    if picture.mode in {"I", "F"} or picture.mode.startswith("I;"):
        picture = _scale_samples(picture)
    if picture.mode in {"LA", "PA", "RGBA", "La", "RGBa"} or "transparency" in picture.info:
        layer = picture.convert("RGBA")
        picture = PILImage.new("RGBA", layer.size, "white")
        picture.alpha_composite(layer)
    return picture.convert("RGB")


def _scale_samples(picture: Image) -> Image:
    """Bring 16-bit, 32-bit and float grey samples to 8 bit.

    Pillow's own conversion clips them to 255, which turns a 16-bit picture white.
    """
    from PIL import Image as PILImage

    samples = np.asarray(picture, dtype=np.float64)
    finite = np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(finite.min()), float(finite.max())
    if picture.mode.startswith("I;16") or (picture.mode == "I" and low >= 0 and high <= 65535):
        low, high = 0.0, 65535.0
    elif low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    elif low >= 0 and high <= 255:
        low, high = 0.0, 255.0
    span = high - low or 1.0
    return PILImage.fromarray(
        np.round((finite - low) / span * 255).clip(0, 255).astype(np.uint8), "L"
    )


def to_pixels(picture: Image, preprocessing: ImagePreprocessing) -> NDArray[np.uint8]:
    """Resize the shorter side and cut the centre square, or squash the whole into it.

    Args:
        picture: an RGB picture.
        preprocessing: of the model.

    Returns:
        uint8 (size, size, 3).
    """
    from PIL import Image as PILImage

    side = preprocessing.size
    resample: Any = PILImage.Resampling[preprocessing.resample.upper()]
    if preprocessing.resize == "squash":
        return np.asarray(picture.resize((side, side), resample), dtype=np.uint8)
    target = math.floor(side / preprocessing.crop)
    width, height = picture.size
    scale = target / min(width, height)
    # A strip is cut to a square's reach first: resizing it whole could need gigabytes.
    reach = max(1, math.ceil(min(width, height) * 2))
    box = _centre_box(width, height, min(width, reach), min(height, reach))
    size = (
        max(side, round((box[2] - box[0]) * scale)),
        max(side, round((box[3] - box[1]) * scale)),
    )
    resized = picture.resize(size, resample, box=box)
    left, top = round((size[0] - side) / 2), round((size[1] - side) / 2)
    return np.asarray(resized.crop((left, top, left + side, top + side)), dtype=np.uint8)


def _centre_box(width: int, height: int, w: int, h: int) -> tuple[int, int, int, int]:
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h
