"""Shared fixtures: the bundled model is small enough to be used for real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from demo_kit import served_sample

from omniembed import Embedder, OmniEmbed
from omniembed.models.model import Model


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the tests away from what the person running them has installed."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNIEMBED_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session")
def model() -> Model:
    return Model.load("mini")


@pytest.fixture(scope="session")
def embedder(model: Model) -> Embedder:
    return Embedder(model)


@pytest.fixture(scope="session")
def demo_url(home: Path) -> Iterator[str]:
    """The page over the bundled sample, served once for all tests."""
    with served_sample() as url:
        yield url


@pytest.fixture
def omni(model: Model, tmp_path: Path) -> OmniEmbed:
    return OmniEmbed(model, tmp_path / "store.lance")
