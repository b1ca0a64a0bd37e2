"""Bundles that run without omniembed: under Python, under Node and in a browser.

Needs no extra. A bundle holds the model's files as they are, everything that steers them in one
safetensors file, ``bundle.json``, and a small runtime for its target.
"""

from __future__ import annotations

from .bundle import BundleReport, Target, export_edge

__all__ = ["BundleReport", "Target", "export_edge"]
