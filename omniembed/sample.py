"""The bundled sample corpus."""

from __future__ import annotations

from pathlib import Path

QUERIES = (
    "why are there two high tides a day?",
    "limit the number of requests per second",
    "a cat looking into the camera",
    "when does the next bus leave?",
)
"""One question for each kind: text, code, image, tool."""


def sample_directory() -> Path:
    """Find the sample.

    Returns:
        A folder with notes, code, images and tool descriptions.
    """
    return Path(__file__).resolve().parent / "data" / "sample"
