"""Choosing an expert for a query."""

from __future__ import annotations

from .gate import GateDecision, decide, gate_scores

__all__ = ["GateDecision", "decide", "gate_scores"]
