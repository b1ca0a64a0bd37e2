"""Captioned images and composed-query triplets of the image data sets."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

TRAIN_SETS = (
    "openstax_figures",
    "imagenet_compatible",
    "recipes",
    "openclipart",
    "emoji",
    "icons",
    "mulberry",
)
"""Sets whose licence allows redistribution of weights trained on them."""

PHOTO_SETS = ("imagenet_compatible", "recipes", "coco_mini")

HELD_OUT_SETS = ("coco_mini",)
"""Sets that are only ever evaluated on."""


@dataclass(frozen=True)
class ImageRow:
    """One captioned image.

    Attributes:
        dataset: Name of the set.
        image: Path of the file below the image folder, ``<set>/images/<name>``.
        captions: Distinct captions, in the order of the set.
        concept: Concept key; a concept never crosses a split.
        split: ``train``, ``val`` or ``test``.
        photo: Whether the set says that this is a photograph.
        label: Name of the thing shown; empty where the set gives none.
    """

    dataset: str
    image: str
    captions: tuple[str, ...]
    concept: str
    split: str
    photo: bool = False
    label: str = ""


@dataclass(frozen=True)
class Triplet:
    """One composed query: a reference image and a text that modifies it.

    Attributes:
        dataset: Name of the set.
        reference: Path of the reference image below the image folder.
        modification: The modification text.
        paraphrases: Other wordings of the same modification.
        targets: Paths of all right answers.
        split: ``train``, ``val`` or ``test``.
        kind: Type of the change, as the set names it.
    """

    dataset: str
    reference: str
    modification: str
    paraphrases: tuple[str, ...]
    targets: tuple[str, ...]
    split: str
    kind: str


def _records(path: Path) -> Iterator[dict[str, object]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _strings(value: object) -> tuple[str, ...]:
    items = value if isinstance(value, list) else []
    return tuple(dict.fromkeys(str(item) for item in items if str(item).strip()))


def load_rows(root: Path, datasets: Iterable[str]) -> list[ImageRow]:
    """Read the captioned images of some sets.

    Args:
        root: The image folder, which holds one folder a set.
        datasets: Names of the sets.

    Returns:
        Rows of all splits, in file order, set after set.
    """
    rows = []
    for name in datasets:
        for record in _records(root / name / "pairs.jsonl.gz"):
            rows.append(
                ImageRow(
                    dataset=name,
                    image=f"{name}/{record['image']}",
                    captions=_strings(record.get("captions") or [record["caption"]]),
                    concept=str(record["concept"]),
                    split=str(record["split"]),
                    photo=name in PHOTO_SETS or record.get("kind") == "photo",
                    label=str(record.get("label") or record.get("name") or ""),
                )
            )
    return rows


def load_triplets(root: Path, dataset: str) -> list[Triplet]:
    """Read the composed queries of one set.

    Args:
        root: The image folder.
        dataset: Name of the set.

    Returns:
        Triplets of all splits, in file order.
    """
    # domain_conversion draws its images from other sets and names those itself.
    prefix = "" if dataset == "domain_conversion" else f"{dataset}/"
    triplets = []
    for record in _records(root / dataset / "triplets.jsonl.gz"):
        targets = _strings(record.get("targets")) or (str(record["target"]),)
        triplets.append(
            Triplet(
                dataset=dataset,
                reference=prefix + str(record["reference"]),
                modification=str(record["modification"]),
                paraphrases=_strings(record.get("paraphrases")),
                targets=tuple(prefix + target for target in targets),
                split=str(record["split"]),
                kind=str(record["type"]),
            )
        )
    return triplets


def load_gallery(root: Path, dataset: str, split: str) -> list[str]:
    """List the images that composed queries of one split are ranked over.

    Args:
        root: The image folder.
        dataset: Name of the set.
        split: ``train``, ``val`` or ``test``.

    Returns:
        Distinct image paths below the image folder.
    """
    prefix = "" if dataset == "domain_conversion" else f"{dataset}/"
    names = (
        prefix + str(record["image"])
        for record in _records(root / dataset / "gallery.jsonl.gz")
        if record["split"] == split
    )
    return list(dict.fromkeys(names))
