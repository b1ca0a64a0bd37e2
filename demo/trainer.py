"""The process that trains for a visitor: ``python -m omniembed.demo.trainer SETTINGS``."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import OmniEmbedError
from ..sdk import OmniEmbed
from .training import OUTCOME, outcome_of

if TYPE_CHECKING:
    from ..experts.training.user import UserConfig

_LOOK_EVERY = 4


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
        config=_config(UserConfig.of(int(job["steps"]))),
    )
    return {
        "name": report.name,
        "steps": report.steps,
        "strength": report.scale,
        "trained_on": report.trained_on,
        "held_out": report.own.queries,
        "figures": report.figures(),
    }


def _config(default: UserConfig) -> UserConfig:
    """Look at dev more often than usual, for a curve that moves; give up after as many steps."""
    train = default.train
    patience = max(1, train.patience * train.eval_every // _LOOK_EVERY)
    watched = dataclasses.replace(train, eval_every=_LOOK_EVERY, patience=patience)
    return dataclasses.replace(default, train=watched)


if __name__ == "__main__":
    main()
