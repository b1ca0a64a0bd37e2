"""Reproduce the shipped experts.

``python -m omniembed.experts.training NAME --data DIR --out DIR``; ``NAME`` ``test`` measures them.
"""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path

import torch

from .base import load_base
from .recipes import RECIPES, TESTS
from .shipped import score_table, train_recipe


def main() -> None:
    """Train one shipped expert, or measure those that are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*RECIPES, "test"], help="expert, or 'test' to measure all")
    parser.add_argument("--data", type=Path, required=True, help="folder of the text sets")
    parser.add_argument("--out", type=Path, required=True, help="folder of packs, runs and caches")
    parser.add_argument("--model", default="mini", help="bundled name or model directory")
    parser.add_argument("--threads", type=int, default=0, help="torch threads; 0: all processors")
    parser.add_argument("--bf16", action="store_true", help="matrix products in bfloat16")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    base = load_base(arguments.model, cache=arguments.out / "cache", bf16=arguments.bf16)
    if arguments.name != "test":
        train_recipe(RECIPES[arguments.name], base, arguments.data, arguments.out)
        return
    packs = {}
    for name in RECIPES:
        folder = arguments.out / "packs" / name
        if folder.is_dir():
            metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
            packs[name] = (folder, float(metrics["scale"]))
    table = score_table(base, arguments.data, packs, TESTS)
    (arguments.out / "test.json").write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
