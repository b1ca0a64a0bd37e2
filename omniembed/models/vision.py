"""The vision tower: trunk and head, from pixels to the shared space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import AdapterBank, Floats
from .manifest import ImagePreprocessing, Manifest
from .session import SessionOptions, open_session, run, run_all

_BATCH = 4
_HEAD = "image_head.onnx"


@dataclass(frozen=True)
class ImageOutput:
    """What the vision tower says of a batch of pictures.

    Attributes:
        vectors: float32 (n, dim), unit norm.
        features: float32 (n, features), what the head reads.
    """

    vectors: Floats
    features: Floats


class VisionTower:
    """Encodes pictures. Safe to call from several threads; sessions open on first use.

    Args:
        directory: the model directory.
        manifest: its manifest.
        preprocessing: of its pictures.
        options: run options.
    """

    def __init__(
        self,
        directory: Path,
        manifest: Manifest,
        preprocessing: ImagePreprocessing,
        options: SessionOptions,
    ) -> None:
        self._directory = directory
        self._manifest = manifest
        self._options = options
        self.preprocessing = preprocessing

    def encode(
        self,
        pixels: Sequence[NDArray[np.uint8]],
        *,
        experts: NDArray[np.int64] | None = None,
        weights: Floats | None = None,
        bank: AdapterBank | None = None,
    ) -> ImageOutput:
        """Encode pictures.

        Args:
            pixels: each uint8 (side, side, 3), from ``images.to_pixels``.
            experts: int64 (n, k), bank rows; the base when omitted. Towers without adaptable
                layers take no notice.
            weights: float32 (n, k), strengths; 1 when omitted.
            bank: the adapters; base only when omitted.

        Returns:
            One row a picture, in order.
        """
        if not pixels:
            empty = np.empty((0, self._manifest.dim), np.float32)
            return ImageOutput(empty, np.empty((0, 0), np.float32))
        targets = self._manifest.image_lora
        rows = np.zeros((len(pixels), 1), np.int64) if experts is None else experts
        strengths = np.ones(rows.shape, np.float32) if weights is None else weights
        steering = (bank or AdapterBank.base_only(targets)).feeds(targets)

        def encode_batch(batch: slice) -> tuple[Floats, Floats]:
            feeds: dict[str, NDArray[Any]] = {"pixels": np.stack(pixels[batch])}
            if targets:
                feeds |= {"expert": rows[batch], "weight": strengths[batch], **steering}
            return self._run(feeds)

        grouped = [slice(start, start + _BATCH) for start in range(0, len(pixels), _BATCH)]
        results = [result for _, result in run_all(encode_batch, grouped, self._options)]
        vectors, features = zip(*results, strict=True)
        return ImageOutput(np.concatenate(vectors), np.concatenate(features))

    def _run(self, feeds: Mapping[str, NDArray[Any]]) -> tuple[Floats, Floats]:
        trunk = open_session(self._directory / "image.onnx", self._options)
        if _HEAD not in self._manifest.files:  # the tower projects by itself
            vectors, features = run(trunk, ("vector", "features"), feeds)
            return vectors, features
        head = open_session(self._directory / _HEAD, self._options)
        features, logits = run(trunk, ("features", "logits"), feeds)
        (vectors,) = run(head, ("vector",), {"features": features, "logits": logits})
        return vectors, features
