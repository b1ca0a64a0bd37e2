"""The vision tower: trunk and head, from pixels to the shared space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .arrays import Floats
from .manifest import ImagePreprocessing, Manifest
from .session import SessionOptions, open_session, run, run_all

_BATCH = 4


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
        self._dim = manifest.dim
        self._options = options
        self.preprocessing = preprocessing

    def encode(self, pixels: Sequence[NDArray[np.uint8]]) -> ImageOutput:
        """Encode pictures.

        Args:
            pixels: each uint8 (side, side, 3), from ``images.to_pixels``.

        Returns:
            One row a picture, in order.
        """
        if not pixels:
            return ImageOutput(np.empty((0, self._dim), np.float32), np.empty((0, 0), np.float32))
        trunk = open_session(self._directory / "image.onnx", self._options)
        head = open_session(self._directory / "image_head.onnx", self._options)

        def encode_batch(batch: Sequence[NDArray[np.uint8]]) -> tuple[Floats, Floats]:
            features, logits = run(trunk, ("features", "logits"), {"pixels": np.stack(batch)})
            (vectors,) = run(head, ("vector",), {"features": features, "logits": logits})
            return vectors, features

        grouped = [pixels[start : start + _BATCH] for start in range(0, len(pixels), _BATCH)]
        results = [result for _, result in run_all(encode_batch, grouped, self._options)]
        vectors, features = zip(*results, strict=True)
        return ImageOutput(np.concatenate(vectors), np.concatenate(features))
