"""The folders of public sets that shipped experts are trained and measured on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...models.arrays import Floats
from .base import Base
from .data import Collection, read_captions, read_collection
from .tasks import Probe, encode_labels

_FOREIGN_DOCUMENTS = 1000
"""Documents of every set in the mixed pool."""

_DEV = "dev"
_CAPTION_SPLITS = {_DEV: "val"}


@dataclass(frozen=True)
class Sources:
    """Where the sets lie.

    Attributes:
        text: folder of BEIR-like sets.
        images: folder of sets of captioned images.
    """

    text: Path
    images: Path

    def folder(self, name: str) -> Path:
        """Find the folder of a set.

        Args:
            name: of the set.

        Returns:
            Where it lies.
        """
        text = self.text / name
        return text if text.is_dir() else self.images / name

    def read(self, name: str, split: str) -> Collection:
        """Read a set.

        A set of captioned images has another gallery for every split.

        Args:
            name: its folder's name.
            split: the split wanted; ``dev`` is ``val`` in sets of images.

        Returns:
            The set, with that split among its splits.
        """
        if (self.text / name).is_dir():
            return read_collection(self.text / name)
        collection = read_captions(self.images / name, _CAPTION_SPLITS.get(split, split))
        return Collection(
            name, collection.documents, {split: next(iter(collection.splits.values()))}
        )

    def probe(self, base: Base, name: str, limit: int) -> Probe:
        """Load one split for measuring.

        Args:
            base: the frozen base.
            name: ``set/split``.
            limit: number of queries at most.

        Returns:
            The probe.
        """
        folder, split = name.split("/")
        return _probe(self.read(folder, split), split, base, limit)

    def dev(self, base: Base, name: str, limit: int) -> dict[str, Probe]:
        """Load the dev split of a set.

        Args:
            base: the frozen base.
            name: the set.
            limit: number of queries at most.

        Returns:
            The probe, by the split's name; empty for a set without dev queries.
        """
        collection = self.read(name, _DEV)
        if _DEV not in collection.splits:
            return {}
        return {_DEV: _probe(collection, _DEV, base, limit)}

    def mixed_pool(self, base: Base, names: tuple[str, ...]) -> dict[str, Floats]:
        """Sample documents of every kind, for negatives of the wrong kind.

        Args:
            base: the frozen base.
            names: the sets to sample from.

        Returns:
            float32 (m, dim) by kind.
        """
        pool: dict[str, list[Floats]] = {}
        for name in names:
            documents = self.read(name, "train").documents
            rows = np.random.default_rng(0).permutation(len(documents))[:_FOREIGN_DOCUMENTS]
            sample = [documents[row] for row in rows]
            pool.setdefault(sample[0].kind.value, []).append(base.cache.vectors(sample))
        return {kind: np.concatenate(vectors) for kind, vectors in pool.items()}


def _probe(collection: Collection, split: str, base: Base, limit: int) -> Probe:
    labels = collection.splits[split]
    rows = np.random.default_rng(0).permutation(len(labels))[:limit]
    labels = labels.select(sorted(rows.tolist()))
    return Probe(encode_labels(labels, base), base.cache.vectors(collection.documents))
