"""Training images in memory and the batches drawn from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


@dataclass(frozen=True)
class ImageTable:
    """The training images of one set under every cached view.

    Attributes:
        features: float16 [views, n, 1744].
        logits: float16 [views, n, 1000].
        captions: Ids of the captions of every image.
        photos: Positions of the photographs.
    """

    features: Tensor
    logits: Tensor
    captions: Sequence[tuple[int, ...]]
    photos: tuple[int, ...] = ()

    def draw(self, rows: npt.ArrayLike, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Read images, each under a random view.

        Args:
            rows: Positions of the images.
            rng: Source of the views.

        Returns:
            Features [n, 1744] and logits [n, 1000], float32.
        """
        index = torch.as_tensor(np.asarray(rows))
        views = torch.as_tensor(rng.integers(len(self.features), size=len(index)))
        return self.features[views, index].float(), self.logits[views, index].float()


@dataclass(frozen=True)
class Batch:
    """Images with one caption each.

    Attributes:
        features: float32 [n, 1744].
        logits: float32 [n, 1000].
        drawn: Id of the caption drawn for every image.
        carried: Ids of all captions of every image.
    """

    features: Tensor
    logits: Tensor
    drawn: list[int]
    carried: list[frozenset[int]]


def set_shares(tables: Mapping[str, ImageTable], power: float) -> dict[str, float]:
    """Share of every set in a batch.

    Args:
        tables: The sets.
        power: 1 follows the sizes of the sets, 0 treats all alike.

    Returns:
        Shares that add up to 1.
    """
    sizes = {name: len(table.captions) ** power for name, table in tables.items()}
    return {name: size / sum(sizes.values()) for name, size in sizes.items()}


def draw_batch(
    tables: Mapping[str, ImageTable],
    shares: Mapping[str, float],
    size: int,
    rng: np.random.Generator,
) -> Batch:
    """Draw images of all sets.

    Args:
        tables: The sets.
        shares: Share of every set.
        size: Number of images, about.
        rng: Source of the draw.

    Returns:
        A batch.
    """
    features, logits = [], []
    drawn: list[int] = []
    carried: list[frozenset[int]] = []
    for name, table in tables.items():
        count = min(round(size * shares[name]), len(table.captions))
        rows = rng.choice(len(table.captions), count, replace=False)
        found = table.draw(rows, rng)
        features.append(found[0])
        logits.append(found[1])
        for row in rows:
            captions = table.captions[row]
            drawn.append(captions[rng.integers(len(captions))])
            carried.append(frozenset(captions))
    return Batch(torch.cat(features), torch.cat(logits), drawn, carried)


def draw_photos(
    tables: Mapping[str, ImageTable], size: int, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Draw photographs, half of them replaced by the mean of two.

    The classifier is linear in the features, so the mean of two photographs' outputs is
    what a photograph of both things would give.

    Args:
        tables: The sets.
        size: Photographs from every set that has some.
        rng: Source of the draw.

    Returns:
        Features [n, 1744] and logits [n, 1000].
    """
    found = [
        table.draw(rng.choice(table.photos, size), rng) for table in tables.values() if table.photos
    ]
    features = torch.cat([item[0] for item in found])
    logits = torch.cat([item[1] for item in found])
    other = torch.as_tensor(rng.permutation(len(features)))
    mixed = torch.as_tensor(rng.random(len(features)) < 0.5).unsqueeze(1)
    return (
        torch.where(mixed, (features + features[other]) / 2, features),
        torch.where(mixed, (logits + logits[other]) / 2, logits),
    )
