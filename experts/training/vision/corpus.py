"""Everything that training needs, read once: rows, trunk outputs, caption vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .batches import ImageTable
from .cache import TrunkOutputs, text_vectors, trunk_outputs
from .classes import class_vectors, imagenet_names
from .sets import (
    HELD_OUT_SETS,
    TRAIN_SETS,
    ImageRow,
    load_rows,
)
from .views import DEPLOYED

# A mirrored icon is another icon: "arrow left" is not "arrow right".
UNMIRRORED_SETS = ("icons",)


@dataclass(frozen=True)
class ImageCorpus:
    """Captioned images with everything computed from them.

    Attributes:
        rows: All rows of all splits.
        outputs: Trunk outputs of `rows` under the deployed view.
        views: Trunk outputs of the training rows under the other views.
        texts: Unit vector of every caption.
        names: Unit vectors of the class names, float32 [1000, 384].
    """

    rows: list[ImageRow]
    outputs: TrunkOutputs
    views: dict[str, TrunkOutputs]
    texts: dict[str, npt.NDArray[np.float32]]
    names: npt.NDArray[np.float32]


def training_rows(rows: Sequence[ImageRow]) -> list[ImageRow]:
    """Select the rows that weights may be trained on."""
    return [row for row in rows if row.split == "train" and row.dataset in TRAIN_SETS]


def load_corpus(root: Path, cache: Path, views: Sequence[str]) -> ImageCorpus:
    """Read the sets and compute, or read from the cache, what the towers make of them.

    Args:
        root: The image folder.
        cache: Cache folder.
        views: Views of the training images besides the deployed one.

    Returns:
        The corpus.
    """
    rows = load_rows(root, (*TRAIN_SETS, *HELD_OUT_SETS))
    trained = [row.image for row in training_rows(rows)]
    return ImageCorpus(
        rows=rows,
        outputs=trunk_outputs(root, [row.image for row in rows], DEPLOYED, cache),
        views={view: trunk_outputs(root, trained, view, cache) for view in views},
        texts=text_vectors([caption for row in rows for caption in row.captions], cache),
        names=class_vectors(imagenet_names(), lambda texts: text_vectors(texts, cache)),
    )


def training_tables(corpus: ImageCorpus) -> tuple[dict[str, ImageTable], Tensor]:
    """Lay out the training images for drawing batches.

    Args:
        corpus: The corpus.

    Returns:
        One table a set, and the vectors of all captions by caption id.
    """
    trained = training_rows(corpus.rows)
    ids: dict[str, int] = {}
    for row in trained:
        for caption in row.captions:
            ids.setdefault(caption, len(ids))
    positions = {row.image: index for index, row in enumerate(corpus.rows)}
    tables = {}
    for name in dict.fromkeys(row.dataset for row in trained):
        own = [index for index, row in enumerate(trained) if row.dataset == name]
        chosen = [trained[index] for index in own]
        here = [positions[row.image] for row in chosen]
        # Fancy indexing copies from the memory maps into memory.
        found = [(corpus.outputs.features[here], corpus.outputs.logits[here])]
        for view, outputs in corpus.views.items():
            if view != "flip" or name not in UNMIRRORED_SETS:
                found.append((outputs.features[own], outputs.logits[own]))
        tables[name] = ImageTable(
            features=torch.from_numpy(np.stack([item[0] for item in found])),
            logits=torch.from_numpy(np.stack([item[1] for item in found])),
            captions=[tuple(ids[caption] for caption in row.captions) for row in chosen],
            photos=tuple(index for index, row in enumerate(chosen) if row.photo),
        )
    return tables, torch.from_numpy(np.stack([corpus.texts[caption] for caption in ids]))
