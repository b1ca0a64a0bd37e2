"""Which kinds of documents a query is after, told from the state that the gate sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .files import Floats

_UNKNOWN = "unknown"


class Kinds:
    """Linear in the centred state, with a softmax.

    Args:
        gate: ``gate`` of ``bundle.json``.
        steering: the arrays of the bundle.
    """

    def __init__(self, gate: Mapping[str, Any], steering: Mapping[str, NDArray[Any]]) -> None:
        self._classes = [str(name) for name in gate["classes"]]
        self._cover = float(gate["cover"])
        self._added: Mapping[str, list[str]] = gate["added"]
        self._center = steering["gate_center"]
        self._weights = steering["kinds"] if self._classes else None

    def likely(self, state: Floats, expert: str) -> list[str] | None:
        """List the fewest kinds that are almost surely all that a query is after.

        Args:
            state: float32 (gate_dim,).
            expert: that serves the query; one the gate was not fitted with adds its own kinds.

        Returns:
            The kinds; ``None`` for all.
        """
        if self._weights is None:
            return None
        own = state - self._center
        own = own / max(float(np.linalg.norm(own)), 1e-12)
        logits = self._weights[:, :-1] @ own + self._weights[:, -1]
        mass = np.exp(logits - logits.max())
        order = np.argsort(-mass, kind="stable")
        short = np.cumsum(mass[order]) / mass.sum() < self._cover
        kinds = [self._classes[place] for place in order[: int(short.sum()) + 1]]
        if _UNKNOWN in kinds or len(kinds) >= len(self._classes) - 1:
            return None
        return sorted({*kinds, *self._added.get(expert, ())})
