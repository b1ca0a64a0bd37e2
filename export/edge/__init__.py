"""Bundles that run without omniembed: under Python, under Node and in a browser.

A bundle holds the model's files as they are, everything that steers them in one
safetensors file, ``bundle.json``, and a small runtime for its target.
"""

from __future__ import annotations

from .bundle import BundleReport, Precision, Target, export_edge

__all__ = ["BundleReport", "Precision", "Target", "export_edge"]
