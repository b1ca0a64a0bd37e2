"""Shared fixtures: the bundled model is small enough to be used for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from omniembed import Embedder, OmniEmbed
from omniembed.models.model import Model


@pytest.fixture(scope="session")
def model() -> Model:
    return Model.load("mini")


@pytest.fixture(scope="session")
def embedder(model: Model) -> Embedder:
    return Embedder(model)


@pytest.fixture
def omni(model: Model, tmp_path: Path) -> OmniEmbed:
    return OmniEmbed(model, tmp_path / "store.lance")
