"""Composed queries at run time: the shipped expert against what needs no training.

python benchmarks/composed.py --data DATA
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from data import parser
from numpy.typing import NDArray

from omniembed import OmniEmbed
from omniembed.experts.training.vision.composed_data import (
    COMPOSED_SETS,
    ComposedQueries,
    composed_queries,
    query_positions,
)
from omniembed.experts.training.vision.composed_evaluate import slerp
from omniembed.experts.training.vision.evaluate import first_hits, recall_at

Floats = NDArray[np.float32]
_AT_ONCE = 256


def vectors(omni: OmniEmbed, root: Path, queries: ComposedQueries) -> dict[str, Floats]:
    """Embed the queries of a set in every way.

    Args:
        omni: the SDK.
        root: the image folder.
        queries: the queries.

    Returns:
        float32 (n, dim) by name.
    """
    pairs = [(root / one.reference, one.modification) for one in queries.triplets]
    found: dict[str, list[Floats]] = {}
    for start in range(0, len(pairs), _AT_ONCE):
        part = pairs[start : start + _AT_ONCE]
        images = omni.embed_queries([image for image, _ in part])
        texts = omni.embed_queries([text for _, text in part], expert="base")
        ways = {
            "image only": images,
            "text only": texts,
            "sum": omni.embed_queries(part, expert="base"),
            "slerp 0.3": slerp(images, texts, 0.3),
            "slerp 0.5": slerp(images, texts, 0.5),
            "composed": omni.embed_queries(part),
        }
        for name, one in ways.items():
            found.setdefault(name, []).append(one)
    return {name: np.concatenate(parts) for name, parts in found.items()}


def main() -> None:
    """Print R@1 and R@10 by set; the gallery is that of the split without the reference."""
    arguments = parser(__doc__).parse_args()
    root = arguments.data / "image"
    omni = OmniEmbed()
    for name in COMPOSED_SETS:
        queries = composed_queries(root, name, "test")
        gallery = omni.embed_documents([root / path for path in queries.gallery])
        targets, references = query_positions(queries)
        print(f"{name}: {len(queries.triplets)} queries, {len(gallery)} images")
        for way, found in vectors(omni, root, queries).items():
            figures = recall_at(first_hits(found @ gallery.T, targets, references), (1, 10))
            print(f"  {way:<11}", {key: round(value, 3) for key, value in figures.items()})


if __name__ == "__main__":
    main()
