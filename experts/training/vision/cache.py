"""Trunk outputs of every image on disk, computed once and memory-mapped."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
import torch

from .towers import (
    CLASSES,
    FEATURES,
    TEXT_DIM,
    Trunk,
    embed_texts,
    load_vision_tower,
)
from .views import SIDE, load_view

logger = logging.getLogger(__name__)

Half = npt.NDArray[np.float16]
BATCH = 32
AHEAD = 4


@dataclass(frozen=True)
class TrunkOutputs:
    """Memory-mapped trunk outputs of a list of images under one view.

    Attributes:
        features: float16 [n, 1744].
        logits: float16 [n, 1000].
    """

    features: Half
    logits: Half


def trunk_session(folder: Path, threads: int) -> onnxruntime.InferenceSession:
    """Open the trunk in ONNX Runtime, which runs it several times faster than torch.

    Args:
        folder: Where the graph is kept; it is exported at the first call.
        threads: Threads of the session.

    Returns:
        A session with input ``pixels`` and outputs ``features`` and ``logits``.
    """
    path = folder / "trunk.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        torch.onnx.export(
            Trunk(load_vision_tower()),
            (torch.zeros(2, SIDE, SIDE, 3, dtype=torch.uint8),),
            path,
            input_names=["pixels"],
            output_names=["features", "logits"],
            dynamic_shapes=({0: torch.export.Dim("n")},),
            dynamo=True,
            external_data=False,
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _compute(
    images: Sequence[Path], view: str, folder: Path, session: onnxruntime.InferenceSession
) -> None:
    shapes = {"features": (len(images), FEATURES), "logits": (len(images), CLASSES)}
    arrays = {
        name: np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float16, shape)
        for name, shape in shapes.items()
    }
    starts = range(0, len(images), BATCH)

    def read(start: int) -> npt.NDArray[np.uint8]:
        return np.stack([load_view(path, view) for path in images[start : start + BATCH]])

    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(read, start) for start in starts[:AHEAD]]
        for index, start in enumerate(starts):
            pixels = waiting.pop(0).result()
            if index + AHEAD < len(starts):
                waiting.append(pool.submit(read, starts[index + AHEAD]))
            outputs = session.run(list(arrays), {"pixels": pixels})
            for array, values in zip(arrays.values(), outputs, strict=True):
                array[start : start + len(pixels)] = values
            if index % 50 == 0:
                logger.info("view %s: %d of %d images", view, start, len(images))
    for array in arrays.values():
        array.flush()


def _key(items: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(items).encode()).hexdigest()[:16]


def trunk_outputs(
    root: Path, images: Sequence[str], view: str, folder: Path, *, threads: int = 2
) -> TrunkOutputs:
    """Return the trunk outputs of some images, computing them at the first call.

    Args:
        root: The image folder.
        images: Paths below it.
        view: Name of the view, see `load_view`.
        folder: Cache folder.
        threads: Threads of the computation.

    Returns:
        Arrays in the order of `images`.
    """
    target = folder / f"{view}-{_key(images)}"
    whole = target / "images.json"
    if not whole.exists():
        target.mkdir(parents=True, exist_ok=True)
        session = trunk_session(folder, threads)
        _compute([root / image for image in images], view, target, session)
        # Written last: its presence means that the arrays beside it are whole.
        whole.write_text(json.dumps(list(images)))
    return TrunkOutputs(
        features=np.load(target / "features.npy", mmap_mode="r"),
        logits=np.load(target / "logits.npy", mmap_mode="r"),
    )


def text_vectors(texts: Sequence[str], folder: Path) -> dict[str, npt.NDArray[np.float32]]:
    """Embed texts with the frozen text tower, at the first call only.

    Args:
        texts: The texts, of which duplicates are embedded once.
        folder: Cache folder.

    Returns:
        Unit vector [384] of every distinct text.
    """
    distinct = sorted(set(texts))
    path = folder / f"texts-{_key(distinct)}.npy"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        logger.info("embedding %d texts", len(distinct))
        partial = path.with_suffix(".partial.npy")
        np.save(partial, embed_texts(distinct))
        partial.replace(path)
    vectors = np.load(path)
    assert vectors.shape == (len(distinct), TEXT_DIM)
    return dict(zip(distinct, vectors, strict=True))
