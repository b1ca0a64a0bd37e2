"""The process that trains for a visitor: ``python -m omniembed.demo.trainer SETTINGS``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from ..errors import OmniEmbedError
from ..sdk import OmniEmbed
from .training import OUTCOME, outcome_of


def main() -> None:
    """Train one expert and write how it went into its folder."""
    job: dict[str, Any] = json.loads(sys.argv[1])
    folder = Path(job["folder"])
    if hasattr(os, "nice"):
        os.nice(10)  # searches of everybody else go first
    try:
        outcome = _train(job, folder)
    except OmniEmbedError as error:
        outcome = outcome_of(error, folder)
    partial = folder / f"{OUTCOME}.partial"
    partial.write_text(json.dumps(outcome), encoding="utf-8")
    partial.replace(folder / OUTCOME)


def _train(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    try:
        from ..experts.training.user import UserConfig
    except ImportError as error:
        return {"error": f"Training needs the extra 'train': {error}"}
    report = OmniEmbed(job["model"]).experts.train(
        job["name"],
        job["pairs"],
        out=folder,
        purpose="Trained on this page.",
        keep_anyway=bool(job["keep_anyway"]),
        config=UserConfig.of(int(job["steps"])),
    )
    return {
        "name": report.name,
        "steps": report.steps,
        "strength": report.scale,
        "trained_on": report.trained_on,
        "held_out": report.own.queries,
        "figures": report.figures(),
    }


if __name__ == "__main__":
    main()
