"""omniembed: embed and retrieve text, code, images and tool descriptions in one space."""

from __future__ import annotations

from .errors import OmniEmbedError
from .types import Document, Failure, Hit, IndexReport, Kind, Query, Route

__all__ = [
    "Document",
    "Failure",
    "Hit",
    "IndexReport",
    "Kind",
    "OmniEmbedError",
    "Query",
    "Route",
]
