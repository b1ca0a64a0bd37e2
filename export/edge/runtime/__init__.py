"""The omniembed edge runtime: embed, route and search with NumPy and ONNX Runtime alone.

    import omniembed_edge

    edge = omniembed_edge.load()
    vectors = edge.embed_documents(["a text", Path("photo.jpg")])
    hits = edge.search("limit requests per second", top_k=5)

A ``str`` is always text; an image is a ``pathlib.Path`` or a ``PIL.Image``; a pair of an image
and a text is a query for that image with the change wanted in it.
"""

from __future__ import annotations

from .engine import Edge, load
from .index import Hit, Index
from .routes import EdgeError, Route

__all__ = ["Edge", "EdgeError", "Hit", "Index", "Route", "load"]
