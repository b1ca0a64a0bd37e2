"""Composed queries with a text as the answer: the same thing in another style.

The triplets know few kinds of pictures. Image and text vectors share one space, so that the
name of what an image shows gives any number of further answers: for a picture of a giraffe
and "as an oil painting" the vector of "an oil painting of a giraffe".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

STYLES = (
    "a photo",
    "a painting",
    "an oil painting",
    "a watercolor",
    "a sketch",
    "a pencil drawing",
    "a line drawing",
    "a cartoon",
    "a comic",
    "an illustration",
    "an icon",
    "a pictogram",
    "an emoji",
    "clip art",
    "a logo",
    "a silhouette",
    "an engraving",
    "a sculpture",
    "a toy",
    "a mosaic",
    "a poster",
    "a 3D rendering",
    "a close-up photo",
    "a black and white photo",
)
OWN_STYLES = {
    "emoji": ("an emoji",),
    "icons": ("an icon", "a pictogram", "a logo"),
    "mulberry": ("a pictogram", "clip art", "an illustration"),
    "openclipart": ("clip art", "a cartoon", "an illustration"),
    "imagenet_compatible": ("a photo", "a close-up photo"),
}
"""Styles that the images of a set have already."""
WORDINGS = (
    "as {}",
    "{} of this",
    "{} of it",
    "turn it into {}",
    "make this {}",
    "the same thing as {}",
    "in the form of {}",
    "show it as {}",
)


@dataclass(frozen=True)
class StyleBatch:
    """Queries for things in another style.

    Attributes:
        images: Paths of the reference images.
        modifications: One modification text an image.
        answers: First the answer of every image, then answers in styles not asked for.
    """

    images: list[str]
    modifications: list[str]
    answers: list[str]


def _folder(path: str) -> str:
    return path.split("/", 1)[0]


def draw_styles(
    labels: Mapping[str, str], size: int, rng: np.random.Generator, *, wrong: int = 2
) -> StyleBatch:
    """Draw reference images, and for each the style to ask for.

    Args:
        labels: Name of the thing shown by image path.
        size: Number of queries.
        rng: Source of the draw.
        wrong: Answers an image that show the same thing in a style not asked for.

    Returns:
        A batch whose first `size` answers belong to the images in order.
    """
    paths = list(labels)
    images = [paths[row] for row in rng.choice(len(paths), size, replace=False)]
    modifications, right, others = [], [], []
    for image in images:
        other = [style for style in STYLES if style not in OWN_STYLES.get(_folder(image), ())]
        asked, *rest = (other[row] for row in rng.choice(len(other), wrong + 1, replace=False))
        modifications.append(WORDINGS[rng.integers(len(WORDINGS))].format(asked))
        right.append(f"{asked} of a {labels[image]}")
        others += [f"{style} of a {labels[image]}" for style in rest]
    return StyleBatch(images, modifications, right + others)
