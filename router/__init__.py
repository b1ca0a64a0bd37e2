"""Choosing an expert for a query."""

from __future__ import annotations

from .assemble import assemble
from .explain import explain
from .gate import GateDecision, decide, gate_scores
from .kinds import KindClassifier
from .settings import GateSettings, read_settings

__all__ = [
    "GateDecision",
    "GateSettings",
    "KindClassifier",
    "assemble",
    "decide",
    "explain",
    "gate_scores",
    "read_settings",
]
