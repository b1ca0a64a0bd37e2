"""The text tower: one session of the routed graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .arrays import AdapterBank, Floats, GateArrays
from .batching import batches, pad
from .manifest import Manifest
from .session import SessionOptions, open_session, run, run_all
from .tokens import Tokenizer, Tokens

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

AUTO = -1
"""Expert id that lets the gate choose."""

_OUTPUTS = ("vector", "chosen", "chosen_weight", "gate_scores", "gate_confidence", "gate_state")


@dataclass(frozen=True)
class TextOutput:
    """What one call of the text tower returns; row i belongs to text i.

    Attributes:
        vectors: float32 (n, dim), unit norm.
        chosen: int64 (n, k), bank rows that served the text; 0 is the base.
        weights: float32 (n, k), their strengths.
        scores: float32 (n, experts), gate scores.
        confidence: float32 (n, experts), probability that the expert beats the base.
        states: float32 (n, gate_dim), unit norm, what the gate saw.
    """

    vectors: Floats
    chosen: NDArray[np.int64]
    weights: Floats
    scores: Floats
    confidence: Floats
    states: Floats


class TextTower:
    """Encodes texts, each with the base, a given adapter, or the gate's choice.

    Safe to call from several threads; the session opens on first use.

    Args:
        directory: the model directory.
        manifest: its manifest.
        options: run options.
    """

    def __init__(self, directory: Path, manifest: Manifest, options: SessionOptions) -> None:
        self._directory = directory
        self._manifest = manifest
        self._options = options
        self._base = AdapterBank.base_only(manifest.lora)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return Tokenizer(self._directory / "tokenizer.json", self._manifest.max_tokens)

    @property
    def _session(self) -> InferenceSession:
        return open_session(self._directory / "text.onnx", self._options)

    def encode(
        self,
        tokens: Sequence[Tokens],
        *,
        experts: NDArray[np.int64] | None = None,
        weights: Floats | None = None,
        bank: AdapterBank | None = None,
        gate: GateArrays | None = None,
        prefix: Floats | None = None,
    ) -> TextOutput:
        """Encode texts.

        Args:
            tokens: the texts, from :attr:`tokenizer`.
            experts: int64 (n, k), bank rows, :data:`AUTO` for the gate's choice; the base when
                omitted.
            weights: float32 (n, k), strengths; 1 when omitted.
            bank: the adapters; base only when omitted.
            gate: the gate's arrays; a gate that keeps to the base when omitted.
            prefix: float32 (n, p, dim), word embeddings placed after the first token.

        Returns:
            One row a text, in order.
        """
        bank = bank or self._base
        gate = gate or GateArrays.closed(self._manifest.gate_dim, len(bank.names))
        rows = len(tokens)
        if experts is None:
            experts = np.zeros((rows, 1), np.int64)
        if weights is None:
            weights = np.ones(experts.shape, np.float32)
        if prefix is None:
            width = self._manifest.word_dim or self._manifest.dim
            prefix = np.zeros((rows, 0, width), np.float32)
        output = TextOutput(
            vectors=np.empty((rows, self._manifest.dim), np.float32),
            chosen=np.empty(experts.shape, np.int64),
            weights=np.empty(experts.shape, np.float32),
            scores=np.empty((rows, len(bank.names)), np.float32),
            confidence=np.empty((rows, len(bank.names)), np.float32),
            states=np.empty((rows, self._manifest.gate_dim), np.float32),
        )
        steering = {**bank.feeds(self._manifest.lora), **gate.feeds()}
        columns: tuple[NDArray[Any], ...] = (
            output.vectors,
            output.chosen,
            output.weights,
            output.scores,
            output.confidence,
            output.states,
        )

        def encode_batch(batch: list[int]) -> list[NDArray[Any]]:
            ids, mask = pad([tokens[row].ids for row in batch])
            feeds = {
                "input_ids": ids,
                "attention_mask": mask,
                "prefix": prefix[batch],
                "expert": experts[batch],
                "weight": weights[batch],
                **steering,
            }
            return run(session, _OUTPUTS, feeds)

        lengths = [len(item.ids) + prefix.shape[1] for item in tokens]
        grouped = batches(lengths, workers=self._options.workers)
        session = self._session
        for batch, values in run_all(encode_batch, grouped, self._options):
            for column, value in zip(columns, values, strict=True):
                column[batch] = value
        return output
