"""From files, records and tables to documents."""

from __future__ import annotations

from .options import IngestOptions
from .scan import scan
from .source import Scan, Source

__all__ = ["IngestOptions", "Scan", "Source", "scan"]
