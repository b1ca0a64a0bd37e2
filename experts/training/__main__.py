"""Reproduce the shipped experts.

``python -m omniembed.experts.training NAME --data DIR --out DIR``; ``NAME`` ``test`` measures them.
"""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path

import torch

from ..card import read_card
from .base import load_base
from .evaluate import as_record
from .recipes import RECIPES, TESTS
from .shipped import score_packs, train_recipe
from .sources import Sources


def main() -> None:
    """Train one shipped expert, or measure those that are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*RECIPES, "test"], help="expert, or 'test' to measure all")
    parser.add_argument("--data", type=Path, required=True, help="folder of the text sets")
    parser.add_argument("--images", type=Path, help="folder of the image sets; ../image by default")
    parser.add_argument("--out", type=Path, required=True, help="folder of packs, runs and caches")
    parser.add_argument("--model", default="mini", help="bundled name or model directory")
    parser.add_argument("--threads", type=int, default=0, help="torch threads; 0: all processors")
    parser.add_argument("--bf16", action="store_true", help="matrix products in bfloat16")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    base = load_base(arguments.model, cache=arguments.out / "cache", bf16=arguments.bf16)
    sources = Sources(arguments.data, arguments.images or arguments.data.parent / "image")
    if arguments.name != "test":
        train_recipe(RECIPES[arguments.name], base, sources, arguments.out)
        return
    packs = {}
    for folder in sorted((arguments.out / "packs").iterdir()):
        packs[folder.name] = (folder, read_card(folder).strength)
    scores = score_packs(base, sources, packs, TESTS)
    record = {name: as_record(metrics) for name, metrics in scores.items()}
    (arguments.out / "test.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
