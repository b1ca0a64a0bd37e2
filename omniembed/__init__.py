"""omniembed: embed and retrieve text, code, images and tool descriptions in one space."""

from __future__ import annotations

from pkgutil import extend_path

# In the root of a checkout, "python -m" finds this folder before the installed package; experts,
# router, export and demo lie beside it there, and only the installed package knows them.
__path__ = extend_path(__path__, __name__)

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
