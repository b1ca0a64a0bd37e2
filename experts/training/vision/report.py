"""Tables of figures, as data and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from .corpus import ImageCorpus
from .evaluate import Floats, caption_recall
from .head import ImageHead

Figures = dict[str, dict[str, float]]


@torch.inference_mode()
def image_vectors(head: ImageHead, corpus: ImageCorpus, *, trained: bool = True) -> Floats:
    """Embed all images of the corpus.

    Args:
        head: The image head.
        corpus: The corpus.
        trained: False for the training-free vectors.

    Returns:
        Unit vectors, float32 [images, 384], without the lift.
    """
    parts = []
    for start in range(0, len(corpus.rows), 1024):
        logits = torch.from_numpy(corpus.outputs.logits[start : start + 1024].copy()).float()
        features = torch.from_numpy(corpus.outputs.features[start : start + 1024].copy()).float()
        parts.append(head(features, logits) if trained else head.anchor(logits))
    vectors: Floats = torch.cat(parts).numpy()
    return vectors


def caption_figures(corpus: ImageCorpus, vectors: Floats, split: str) -> Figures:
    """Text-to-image recall of every set.

    Args:
        corpus: The corpus.
        vectors: Vectors of all its images.
        split: ``val`` or ``test``; sets without it are left out.

    Returns:
        Recall by set.
    """
    figures = {}
    for name in dict.fromkeys(row.dataset for row in corpus.rows):
        chosen = [
            index
            for index, row in enumerate(corpus.rows)
            if row.dataset == name and row.split == split
        ]
        if chosen:
            rows = [corpus.rows[index] for index in chosen]
            figures[name] = caption_recall(rows, vectors[np.array(chosen)], corpus.texts)
    return figures


def markdown(tables: Mapping[str, Figures]) -> str:
    """Write figures side by side.

    Args:
        tables: Figures by column, each by row and measure.

    Returns:
        A Markdown table whose cells hold the measures, divided by slashes, in per cent.
    """
    columns = list(tables)
    rows = list(dict.fromkeys(row for figures in tables.values() for row in figures))
    measures = list(next(iter(next(iter(tables.values())).values())))
    lines = [
        f"| {' / '.join(measures)} | {' | '.join(columns)} |",
        "|" + "---|" * (len(columns) + 1),
    ]
    for row in rows:
        cells = [
            " / ".join(f"{100 * value:.1f}" for value in tables[column].get(row, {}).values())
            for column in columns
        ]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)
