"""omniembed: embed and retrieve text, code, images and tool descriptions in one space."""

from __future__ import annotations

from .embedder import Embedder
from .errors import OmniEmbedError
from .sdk import OmniEmbed
from .types import Document, Failure, Hit, IndexReport, Kind, Query, Route

__version__ = "0.1.0"

__all__ = [
    "Document",
    "Embedder",
    "Failure",
    "Hit",
    "IndexReport",
    "Kind",
    "OmniEmbed",
    "OmniEmbedError",
    "Query",
    "Route",
]
