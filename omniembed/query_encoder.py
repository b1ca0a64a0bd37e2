"""Queries to vectors: by the base, a named expert, or the one that the gate chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .errors import EmptyInputError
from .experts import ExpertRegistry
from .experts.registry import LoadedExperts
from .models.arrays import Floats, GateArrays
from .models.model import Model
from .models.text import AUTO, TextOutput
from .models.tokens import Tokens
from .pictures import PictureAdapter, encode_pictures
from .router import GateSettings, KindClassifier, assemble, read_settings
from .types import Kind, Query, Route

BASE = "base"


@dataclass(frozen=True)
class EncodedQueries:
    """Query vectors and how they came about; row i belongs to query i.

    Attributes:
        vectors: float32 (n, dim), unit norm.
        routes: one a query.
        states: float32 (n, gate_dim), what the gate saw; zero for pictures without a text.
    """

    vectors: Floats
    routes: list[Route]
    states: Floats


class QueryEncoder:
    """Encodes queries of all forms in one call.

    Args:
        model: the frozen base.
        experts: the experts that may serve queries.
    """

    def __init__(self, model: Model, experts: ExpertRegistry) -> None:
        self._model = model
        self._experts = experts
        self._assembled: tuple[LoadedExperts, GateArrays] | None = None

    @cached_property
    def settings(self) -> GateSettings | None:
        """The gate's settings; ``None`` for a model without a gate."""
        return read_settings(self._model.directory, self._model.manifest.gate_dim)

    def gate(self, experts: LoadedExperts) -> GateArrays | None:
        """Assemble the gate for a state of the registry.

        Args:
            experts: the state.

        Returns:
            The gate's arrays; ``None`` for a model without a gate.
        """
        if self.settings is None:
            return None
        assembled = self._assembled
        if assembled is None or assembled[0] is not experts:
            assembled = experts, assemble(self.settings, experts.packs, experts.bank.names)
            self._assembled = assembled
        return assembled[1]

    def kinds(self, query: Query, route: Route, state: Floats) -> set[Kind] | None:
        """Tell which kinds of documents a query is after.

        Args:
            query: the query.
            route: how it was encoded.
            state: float32 (gate_dim,), what the gate saw.

        Returns:
            For a picture with a text, those that its expert aims at. For a text that the gate
            routed, the fewest that are almost surely enough, and those of an expert which the
            gate was not fitted with. ``None`` for all kinds.
        """
        pack = self._experts.state.packs.get(route.expert)
        if query.modality == "composed":
            return set(pack.card.kinds) if pack else None
        if self.settings is None or not self.settings.kinds or not route.scores:
            return None
        classifier = KindClassifier(self.settings.center, self.settings.kinds)
        likely = classifier.likely(state[None], self.settings.cover)[0]
        if likely is None:
            return None
        added = pack.card.kinds if pack and pack.gate.direction is None else ()
        return {Kind(name) for name in likely} | set(added)

    def encode(self, queries: Sequence[Query], expert: str) -> EncodedQueries:
        """Encode queries; all or none.

        Texts go to the expert that is asked for; with ``"auto"`` the gate chooses within the
        same pass. A picture with a text goes to the composed expert by its form. A picture alone
        passes through no adapter, unless a named expert has one for the vision tower.

        Args:
            queries: of any form.
            expert: ``"auto"``, ``"base"`` or the name of an expert.

        Returns:
            Vectors and routes.

        Raises:
            UnknownExpertError: before anything is computed.
            InputError: for a query that cannot be embedded, naming its position.
        """
        experts = self._experts.state
        if expert != "auto":
            experts.row(expert)
        plan = _Plan(self._model, experts, expert, self.gate(experts))
        tokens = self._tokens(queries)
        pictures = [(at, one.image) for at, one in enumerate(queries) if one.image is not None]
        adapter = plan.picture_adapter(queries)
        seen = encode_pictures(self._model, pictures, adapter)
        if seen.failures:
            raise seen.failures[min(seen.failures)]
        vectors = np.zeros((len(queries), self._model.manifest.dim), np.float32)
        states = np.zeros((len(queries), self._model.manifest.gate_dim), np.float32)
        vectors[seen.rows] = seen.vectors
        cut = [at in tokens and tokens[at].truncated for at in range(len(queries))]
        routes = [Route(truncated=one) for one in cut]
        for at in adapter.positions if adapter is not None else ():
            routes[at] = Route(expert=expert)
        plain = [at for at in tokens if queries[at].image is None]
        if plain:
            output = plan.texts([tokens[at] for at in plain])
            vectors[plain], states[plain] = output.vectors, output.states
            for row, at in enumerate(plain):
                routes[at] = plan.route(output, row, cut[at])
        both = [at for at in tokens if queries[at].image is not None]
        if both:
            at_seen = [seen.rows.index(at) for at in both]
            name, joint = plan.composed(
                [tokens[at] for at in both], seen.vectors[at_seen], seen.features[at_seen]
            )
            vectors[both] = joint
            for at in both:
                routes[at] = Route(expert=name, truncated=cut[at])
        return EncodedQueries(vectors, routes, states)

    def _tokens(self, queries: Sequence[Query]) -> dict[int, Tokens]:
        rows = [row for row, query in enumerate(queries) if query.text is not None]
        if not rows:
            return {}
        tokens = self._model.text.tokenizer.encode([_text(queries[row]) for row in rows])
        for row, item in zip(rows, tokens, strict=True):
            if item.empty:
                raise nothing_to_read("query", row, queries[row].text or "")
        return dict(zip(rows, tokens, strict=True))


@dataclass(frozen=True)
class _Plan:
    """One call: a consistent state of the experts, and the one that was asked for."""

    model: Model
    experts: LoadedExperts
    expert: str
    gate: GateArrays | None

    def texts(self, tokens: Sequence[Tokens]) -> TextOutput:
        if self.expert == "auto" and self.gate is not None:
            bank, rows = self.experts.bank, np.full((len(tokens), 1), AUTO, np.int64)
            return self.model.text.encode(tokens, experts=rows, bank=bank, gate=self.gate)
        return self._forced(tokens, BASE if self.expert == "auto" else self.expert)

    def route(self, output: TextOutput, row: int, truncated: bool) -> Route:
        if self.expert != "auto":
            return Route(expert=self.expert, truncated=truncated)
        if self.gate is None:
            return Route(confidence=0.0, abstained=True, truncated=truncated)
        names = self.experts.bank.names
        served = int(output.chosen[row, 0])
        asked = set(self.gate.owners.tolist())
        confidence: NDArray[np.float32] = output.confidence[row]
        return Route(
            expert=names[served],
            confidence=float(confidence[served] if served else confidence.max()),
            scores={name: float(confidence[at]) for at, name in enumerate(names) if at in asked},
            abstained=served == 0,
            truncated=truncated,
        )

    def picture_adapter(self, queries: Sequence[Query]) -> PictureAdapter | None:
        pack = self.experts.packs.get(self.expert)
        targets = self.model.manifest.image_lora
        if pack is None or not any(target.name in pack.a for target in targets):
            return None
        alone = frozenset(
            at for at, one in enumerate(queries) if one.image is not None and one.text is None
        )
        row, strength = self.experts.row(self.expert), self.experts.strength(self.expert)
        return PictureAdapter(self.experts.bank, row, strength, alone)

    def composed(
        self, tokens: Sequence[Tokens], pictures: Floats, features: Floats
    ) -> tuple[str, Floats]:
        name = self.expert
        if name == "auto":
            able = [one for one, pack in self.experts.packs.items() if pack.composed is not None]
            name = able[-1] if able else BASE
        parts = self.experts.packs[name].composed if name != BASE else None
        if parts is None:
            # Without an expert for it, a composed query is the normalised sum of its parts.
            return name, _unit(self._forced(tokens, name).vectors + pictures)
        prefix = parts.prefix(features, pictures)
        return name, parts.combine(self._forced(tokens, name, prefix).vectors, pictures)

    def _forced(
        self, tokens: Sequence[Tokens], name: str, prefix: Floats | None = None
    ) -> TextOutput:
        shape = (len(tokens), 1)
        return self.model.text.encode(
            tokens,
            experts=np.full(shape, self.experts.row(name), np.int64),
            weights=np.full(shape, self.experts.strength(name), np.float32),
            bank=None if name == BASE else self.experts.bank,
            prefix=prefix,
        )


def nothing_to_read(what: str, row: int, text: str) -> EmptyInputError:
    """Make the error for a text of which no token is left.

    Args:
        what: ``"query"`` or ``"document"``.
        row: its position.
        text: the text.

    Returns:
        The error.
    """
    return EmptyInputError(
        f"{what} {row} holds nothing that can be embedded: {text[:40]!r}; give at least one word"
    )


def _text(query: Query) -> str:
    text = query.text or ""
    return f"{query.instruction} {text}" if query.instruction else text


def _unit(vectors: Floats) -> Floats:
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norm, 1e-12), dtype=np.float32)
