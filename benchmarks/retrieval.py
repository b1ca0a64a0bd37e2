"""Retrieval quality of the base: scifact nDCG@10 and photos found by their captions.

python benchmarks/retrieval.py --data DATA
"""

from __future__ import annotations

from pathlib import Path

import ir_measures
import numpy as np
from data import load_retrieval, parser, read_jsonl
from ir_measures import R, nDCG

from omniembed import OmniEmbed


def text_set(omni: OmniEmbed, folder: Path, split: str = "test") -> dict[str, float]:
    """Measure exact vector search on a BEIR-like set.

    Args:
        omni: the SDK.
        folder: the set.
        split: its split.

    Returns:
        nDCG@10 and Recall@10.
    """
    data = load_retrieval(folder, split)
    corpus = omni.embed_documents(data.documents)
    ids = np.array([document.id for document in data.documents])
    queries = omni.embed_queries(list(data.queries.values()), expert="base")
    run = {}
    for query, scores in zip(data.queries, queries @ corpus.T, strict=True):
        top = np.argsort(-scores)[:100]
        run[query] = {str(ids[row]): float(scores[row]) for row in top}
    measured = ir_measures.calc_aggregate([nDCG @ 10, R @ 10], data.qrels, run)
    return {str(measure): value for measure, value in measured.items()}


def captioned_set(omni: OmniEmbed, folder: Path, split: str = "test") -> dict[str, float]:
    """Measure text-to-image retrieval: a distinct caption finds an image that carries it.

    Args:
        omni: the SDK.
        folder: the set.
        split: its split; the gallery is the whole of it.

    Returns:
        R@1, R@5 and R@10: share of captions with a relevant image that high.
    """
    rows = [row for row in read_jsonl(folder / "pairs.jsonl.gz") if row["split"] == split]
    gallery = sorted({row["image"] for row in rows})
    position = {name: index for index, name in enumerate(gallery)}
    relevant: dict[str, set[int]] = {}
    for row in rows:
        for caption in row.get("captions") or [row["caption"]]:
            relevant.setdefault(caption, set()).add(position[row["image"]])
    files = [_image_file(folder, name) for name in gallery]
    images = omni.embed_documents(files)
    captions = omni.embed_queries(list(relevant), expert="base")
    order = np.argsort(-(captions @ images.T), axis=1)
    wanted = list(relevant.values())
    return {
        f"R@{k}": float(np.mean([bool(set(order[i, :k]) & wanted[i]) for i in range(len(wanted))]))
        for k in (1, 5, 10)
    }


def _image_file(folder: Path, name: str) -> Path:
    path = folder / name
    return path if path.exists() else folder / "images" / name


def main() -> None:
    """Print one line a set."""
    options = parser(__doc__)
    options.add_argument("--sets", nargs="*", default=["scifact"])
    options.add_argument("--images", nargs="*", default=["coco_mini"])
    options.add_argument("--model", default="mini", help="bundled name or model directory")
    arguments = options.parse_args()
    omni = OmniEmbed(arguments.model)
    for name in arguments.sets:
        figures = text_set(omni, arguments.data / "text_code_tool" / name)
        print(name, {key: round(value, 4) for key, value in figures.items()})
    for name in arguments.images:
        figures = captioned_set(omni, arguments.data / "image" / name)
        print(name, {key: round(value, 4) for key, value in figures.items()})


if __name__ == "__main__":
    main()
