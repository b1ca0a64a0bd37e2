"""The shipped towers against torch: text int8 and vision on real inputs.

Needs the ``train`` extra, and the weights that the shipped head was exported from:
python benchmarks/parity.py --data DATA --image-head RUN/image_head.safetensors
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import torch
from data import parser, read_jsonl
from numpy.typing import NDArray

from omniembed import Embedder
from omniembed.experts.training.vision.head import load_head
from omniembed.experts.training.vision.towers import Trunk, load_vision_tower
from omniembed.export.image import LiftedHead
from omniembed.export.sources import load_minilm
from omniembed.models.images import load_rgb, to_pixels
from omniembed.models.model import Model

TEXTS = {"scifact": 150, "conala": 100, "metatool": 50, "pydoc_mined": 100, "openstax_text": 100}


def main() -> None:
    """Print minimum and median cosine, and the batch difference."""
    options = parser(__doc__)
    options.add_argument("--images", type=int, default=96)
    options.add_argument("--image-head", type=Path, required=True)
    arguments = options.parse_args()
    embedder = Embedder(Model.load("mini"))
    minilm = load_minilm()

    texts = [
        f"{row.get('title', '')}\n{row['text']}".strip()
        for name, count in TEXTS.items()
        for row in itertools.islice(
            read_jsonl(arguments.data / "text_code_tool" / name / "corpus.jsonl.gz"), count
        )
    ]
    together = embedder.embed_documents(texts)
    report("text int8 vs torch fp32", cosines(together, minilm.embed(texts)))
    alone = np.concatenate([embedder.embed_documents([text]) for text in texts])
    print(f"batch vs single, {len(texts)} texts: max difference {np.abs(together - alone).max()}")

    photos = sorted((arguments.data / "image" / "coco_mini" / "images").iterdir())
    photos = photos[: arguments.images]
    vectors = embedder.embed_documents(photos)
    report(
        "vision vs torch fp32",
        cosines(vectors, torch_vision(embedder, photos, arguments.image_head)),
    )
    alone = np.concatenate([embedder.embed_documents([photo]) for photo in photos])
    print(f"batch vs single, {len(photos)} photos: max difference {np.abs(vectors - alone).max()}")


def torch_vision(embedder: Embedder, photos: list[Path], weights: Path) -> NDArray[np.float32]:
    """Embed photos with the torch modules.

    Args:
        embedder: for its preprocessing.
        photos: files.
        weights: of the image head.

    Returns:
        float32 (n, dim).
    """
    trunk = Trunk(load_vision_tower()).eval()
    head = LiftedHead(load_head(weights)).eval()
    preprocessing = embedder.model.vision.preprocessing
    pixels = np.stack([to_pixels(load_rgb(photo), preprocessing) for photo in photos])
    with torch.inference_mode():
        return np.asarray(head(*trunk(torch.from_numpy(pixels))).numpy())


def cosines(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compare rows.

    Args:
        a: (n, dim), unit norm.
        b: (n, dim), unit norm.

    Returns:
        (n,).
    """
    return (a * b).sum(axis=1)


def report(name: str, values: NDArray[np.float32]) -> None:
    """Print a line.

    Args:
        name: what was compared.
        values: cosines.
    """
    print(f"{name}, n={len(values)}: cosine min {values.min():.5f} median {np.median(values):.5f}")


if __name__ == "__main__":
    main()
