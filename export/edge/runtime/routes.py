"""What the runtime says of a query, and the one error that it raises on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


class EdgeError(ValueError):
    """An input, an option or the bundle itself cannot be used; the message says what to do."""


@dataclass(frozen=True)
class Route:
    """How a query was encoded.

    Attributes:
        expert: that served the query, or ``"base"``.
        confidence: probability that the expert beats the base; 1.0 where the gate was not asked.
            When the gate abstained, that of the expert it came closest to choosing.
        scores: the same probability for every expert; empty when the gate was not asked.
        abstained: True when the gate was asked and kept to the base.
        truncated: True when the query was longer than the model reads.
        kinds: of documents that the query is almost surely after; ``None`` for all.
    """

    expert: str = "base"
    confidence: float = 1.0
    scores: Mapping[str, float] = field(default_factory=dict)
    abstained: bool = False
    truncated: bool = False
    kinds: list[str] | None = None
