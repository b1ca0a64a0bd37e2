"""Backbones at full size against torch, with random weights: no download is needed.

Needs the ``train`` extra: python benchmarks/backbones.py [--model ViT-B-32]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import open_clip
import torch

from omniembed.experts.training.backbones.open_clip import open_clip_source
from omniembed.export.model import ExportConfig, export_source
from omniembed.export.tables import print_report


def main() -> None:
    """Export an open_clip model in all precisions and print the parity report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="ViT-B-32")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="keep the int8 directory here")
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    model = open_clip.create_model(arguments.model, pretrained=None)
    source = open_clip_source(
        model,
        name=f"{arguments.model} (random weights)",
        tokenizer=open_clip.get_tokenizer(arguments.model),
    )
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        out = arguments.out or Path(scratch) / "model"
        report = export_source(source, out, config=ExportConfig(compare=True, force=True))
    print_report(report)
    print(f"{time.perf_counter() - start:.0f} s")
    raise SystemExit(0 if report.passed else 1)


if __name__ == "__main__":
    main()
