"""Small copies of pictures as data URIs: the page links to no file of the host."""

from __future__ import annotations

import base64
import io
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import OmniEmbedError
from ..models.images import load_rgb
from ..types import ImageInput
from .roots import Roots

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 320
_QUALITY = 82


def thumbnail(image: ImageInput | None, roots: Roots, side: int = SIDE) -> str | None:
    """Make a small copy of an indexed picture.

    Args:
        image: of a document.
        roots: where pictures may be read from.
        side: longest side in pixels.

    Returns:
        A data URI; ``None`` for a picture that is gone, unreadable or outside the roots.
    """
    if image is None:
        return None
    if not isinstance(image, Path):
        return as_uri(image, side)
    if not roots.allows(image):
        return None
    try:
        return _of_file(image, image.stat().st_mtime_ns, side)
    except (OSError, OmniEmbedError):
        return None


def readable(image: ImageInput | None, roots: Roots) -> Image | None:
    """Decode an indexed picture that visitors may see.

    Args:
        image: of a document.
        roots: where pictures may be read from.

    Returns:
        An RGB picture; ``None`` for one that is gone, unreadable or outside the roots.
    """
    if image is None or (isinstance(image, Path) and not roots.allows(image)):
        return None
    try:
        return load_rgb(image)
    except OmniEmbedError:
        return None


def as_uri(picture: Image, side: int = SIDE) -> str:
    """Make a small copy of a picture in memory.

    Args:
        picture: any picture.
        side: longest side in pixels.

    Returns:
        A data URI.
    """
    small = load_rgb(picture).copy()
    small.thumbnail((side, side))
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=_QUALITY)
    return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"


# The time of change is part of the key, so that an edited picture is read again.
@lru_cache(maxsize=2048)
def _of_file(path: Path, changed: int, side: int) -> str:
    return as_uri(load_rgb(path), side)
