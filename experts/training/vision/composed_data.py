"""Triplets and galleries with the vectors that composed training and evaluation need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .cache import trunk_outputs
from .evaluate import Floats
from .head import ImageHead
from .sets import (
    TRAIN_SETS,
    Triplet,
    load_gallery,
    load_triplets,
)
from .views import DEPLOYED

COMPOSED_TRAIN_SETS = ("emoji", "icons", "domain_conversion")
COMPOSED_SETS = (*COMPOSED_TRAIN_SETS, "pacs")
# Its licence keeps it apart from everything else.
LEFT_OUT = "tuxpaint_stamps"


@dataclass(frozen=True)
class ImageBank:
    """Images under several views, by position.

    Attributes:
        positions: Position of every image path.
        features: float16 [views, images, 1744].
        vectors: Unit vectors without the lift, float32 [views, images, 384]; the first
            view is the deployed one.
    """

    positions: dict[str, int]
    features: Tensor
    vectors: Tensor


@dataclass(frozen=True)
class ComposedQueries:
    """Composed queries of one set and split over its gallery.

    Attributes:
        triplets: The queries.
        gallery: Paths of the images to rank.
    """

    triplets: list[Triplet]
    gallery: list[str]


def _folder(path: str) -> str:
    return path.split("/", 1)[0]


def composed_queries(root: Path, dataset: str, split: str) -> ComposedQueries:
    """Read the queries of one set; training queries keep to redistributable images.

    Args:
        root: The image folder.
        dataset: Name of the set.
        split: ``train``, ``val`` or ``test``.

    Returns:
        Queries whose reference and at least one target are allowed, and the gallery.
    """

    def allowed(path: str) -> bool:
        if split == "train":
            return _folder(path) in TRAIN_SETS
        return _folder(path) != LEFT_OUT

    gallery = [path for path in load_gallery(root, dataset, split) if allowed(path)]
    inside = set(gallery)
    triplets = []
    for triplet in load_triplets(root, dataset):
        targets = tuple(path for path in triplet.targets if path in inside)
        if triplet.split == split and allowed(triplet.reference) and targets:
            triplets.append(Triplet(**{**vars(triplet), "targets": targets}))
    return ComposedQueries(triplets, gallery)


@torch.inference_mode()
def image_bank(
    root: Path, images: Sequence[str], head: ImageHead, cache: Path, views: Sequence[str] = ()
) -> ImageBank:
    """Compute, or read from the cache, what the towers and the head make of images.

    Args:
        root: The image folder.
        images: Distinct paths below it.
        head: The trained image head.
        cache: Cache folder.
        views: Views besides the deployed one.

    Returns:
        The bank.
    """
    features, vectors = [], []
    for view in (DEPLOYED, *views):
        outputs = trunk_outputs(root, images, view, cache)
        features.append(torch.from_numpy(outputs.features[:]))
        logits = torch.from_numpy(outputs.logits[:])
        chunks = zip(features[-1].split(1024), logits.split(1024), strict=True)
        vectors.append(torch.cat([head(chunk.float(), other.float()) for chunk, other in chunks]))
    positions = {image: index for index, image in enumerate(images)}
    return ImageBank(positions, torch.stack(features), torch.stack(vectors))


def query_positions(
    queries: ComposedQueries,
) -> tuple[list[tuple[int, ...]], list[int]]:
    """Locate targets and references in the gallery.

    Args:
        queries: The queries.

    Returns:
        Positions of the targets of every query, and the position of its reference (-1
        where the gallery lacks it).
    """
    places = {path: index for index, path in enumerate(queries.gallery)}
    targets = [tuple(places[path] for path in triplet.targets) for triplet in queries.triplets]
    references = [places.get(triplet.reference, -1) for triplet in queries.triplets]
    return targets, references


def gallery_vectors(bank: ImageBank, queries: ComposedQueries) -> Floats:
    """Look up the vectors of the gallery.

    Args:
        bank: The images.
        queries: The queries.

    Returns:
        float32 [gallery, 384].
    """
    rows = [bank.positions[path] for path in queries.gallery]
    return np.asarray(bank.vectors[0][rows].numpy(), np.float32)
