"""The text tower: token ids in, vectors and the gate's choice out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .files import Floats, open_session
from .routes import EdgeError

GATE = -1
"""Bank row that lets the gate choose."""

_OUTPUTS = ("vector", "chosen", "gate_confidence", "gate_state")
_GATE_INPUTS = ("pilots", "pilot_owners", "gate_center", "gate_experts", "gate_settings")
_BUDGET = 512  # padded tokens a batch
_CHARACTERS_PER_TOKEN = 64


@dataclass(frozen=True)
class Tokens:
    """One text as token ids, special tokens included."""

    ids: list[int]
    empty: bool
    truncated: bool


@dataclass(frozen=True)
class Encoded:
    """What the text tower says; row i belongs to text i.

    Attributes:
        vectors: float32 (n, dim), unit norm.
        chosen: int64 (n,), bank rows that served the texts; 0 is the base.
        confidence: float32 (n, experts + 1).
        states: float32 (n, gate_dim), what the gate saw.
    """

    vectors: Floats
    chosen: NDArray[np.int64]
    confidence: Floats
    states: Floats


class TextTower:
    """The routed text graph and its tokenizer.

    Args:
        folder: of the bundle.
        content: of ``bundle.json``.
        steering: graph inputs by name: the adapter bank, and the gate where there is one.
        threads: processor threads of one call.
    """

    def __init__(
        self,
        folder: Path,
        content: Mapping[str, Any],
        steering: Mapping[str, NDArray[Any]],
        threads: int,
    ) -> None:
        from tokenizers import Tokenizer

        self._dim = int(content["dim"])
        self._limit = int(content["max_tokens"])
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # tokenizers raises no narrower class
            raise EdgeError(f"cannot read tokenizer.json in {folder}: {error}") from error
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self._limit)
        self._session = open_session(folder / "text.onnx", threads)
        self._bank = {name: array for name, array in steering.items() if name[:5] == "lora_"}
        # A bank of rank 0 is the base at no cost.
        self._base: dict[str, NDArray[Any]] = {}
        for layer in content["lora"]:
            self._base[f"lora_a.{layer['name']}"] = np.zeros((1, 0, layer["d_in"]), np.float32)
            self._base[f"lora_b.{layer['name']}"] = np.zeros((1, 0, layer["d_out"]), np.float32)
        lacking = set(self._base) - set(self._bank)
        lacking |= set(_GATE_INPUTS) - set(steering) if content["gate"] else set()
        if lacking:
            raise EdgeError(
                f"steering.safetensors in {folder} lacks {', '.join(sorted(lacking))}; "
                "copy the bundle again, whole"
            )
        self._gate = {name: steering[name] for name in _GATE_INPUTS if name in steering}
        self._width = int(content["gate_dim"])

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """Turn texts into token ids.

        Args:
            texts: any strings.

        Returns:
            One entry a text.
        """
        most = self._limit * _CHARACTERS_PER_TOKEN
        readable = [text.strip().encode("utf-8", "replace").decode() for text in texts]
        found = self._tokenizer.encode_batch([text[:most] for text in readable])
        return [
            Tokens(
                one.ids,
                empty=sum(one.special_tokens_mask) == len(one.ids),
                truncated=bool(one.overflowing) or len(text) > most,
            )
            for text, one in zip(readable, found, strict=True)
        ]

    def encode(
        self,
        tokens: Sequence[Tokens],
        *,
        row: int = 0,
        weight: float = 1.0,
        prefix: Floats | None = None,
    ) -> Encoded:
        """Encode texts.

        Args:
            tokens: the texts.
            row: of the adapter bank; 0 is the base, :data:`GATE` lets the gate choose.
            weight: strength of the adapter.
            prefix: float32 (n, p, dim), pseudo-words placed after the first token.

        Returns:
            One row a text, in order.
        """
        steering = (self._base if row == 0 else self._bank) | self._steer(row)
        count = len(steering["gate_experts"])
        if prefix is None:
            prefix = np.zeros((len(tokens), 0, self._dim), np.float32)
        vectors = np.empty((len(tokens), self._dim), np.float32)
        chosen = np.zeros(len(tokens), np.int64)
        confidence = np.empty((len(tokens), count), np.float32)
        states = np.empty((len(tokens), self._width), np.float32)
        for batch in _batches([len(one.ids) + prefix.shape[1] for one in tokens]):
            ids = np.zeros((len(batch), max(len(tokens[at].ids) for at in batch)), np.int64)
            mask = np.zeros_like(ids)
            for place, at in enumerate(batch):
                ids[place, : len(tokens[at].ids)] = tokens[at].ids
                mask[place, : len(tokens[at].ids)] = 1
            feeds = {
                "input_ids": ids,
                "attention_mask": mask,
                "prefix": prefix[batch],
                "expert": np.full((len(batch), 1), row, np.int64),
                "weight": np.full((len(batch), 1), weight, np.float32),
                **steering,
            }
            vectors[batch], served, confidence[batch], states[batch] = self._session.run(
                _OUTPUTS, feeds
            )
            chosen[batch] = served[:, 0]
        return Encoded(vectors, chosen, confidence, states)

    def _steer(self, row: int) -> dict[str, NDArray[Any]]:
        """Give the gate's arrays, or those of a gate that is never asked."""
        if row == GATE:
            return self._gate
        experts = 1 if row == 0 else len(next(iter(self._bank.values())))
        return {
            "pilots": np.zeros((1, self._width), np.float32),
            "pilot_owners": np.zeros(1, np.int64),
            "gate_center": np.zeros(self._width, np.float32),
            "gate_experts": np.tile(np.array([0, -1e4, 1], np.float32), (experts, 1)),
            "gate_settings": np.array([1, 0.5, 1e-6], np.float32),
        }


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Group rows of similar length, longest first, within the token budget."""
    grouped: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: (-lengths[row], row)):
        if grouped and lengths[grouped[-1][0]] * (len(grouped[-1]) + 1) <= _BUDGET:
            grouped[-1].append(row)
        else:
            grouped.append([row])
    return grouped
