"""A text encoder taken apart: words, layers one by one, pooling.

Training runs its frozen lower half once and its upper half again and again; the export puts the
gate between the two. Both need the same seams, whatever the family of the encoder.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

BLOCKED = -1e9
"""Added to the attention scores of what must not be seen."""


class TextBackbone(nn.Module):
    """Base of all families: the seams of BERT, which the others change where they differ.

    Args:
        encoder: the encoder, with eager attention; its layers are called one by one.
        pooling: ``"mean"``, ``"cls"`` or ``"last"``.
        head: applied to the pooled state, (n, 2, width) to (n, 2, dim); none when omitted.
        root: the model that holds the encoder, when that is larger. Names of LoRA layers count
            from it.
        path: dotted path of the encoder in ``root``.
    """

    layer_path = "encoder.layer"

    def __init__(
        self,
        encoder: nn.Module,
        *,
        pooling: str = "mean",
        head: nn.Module | None = None,
        root: nn.Module | None = None,
        path: str = "",
    ) -> None:
        super().__init__()
        if pooling not in ("mean", "cls", "last"):
            raise ValueError(f"pooling must be mean, cls or last, not {pooling!r}")
        self.model = encoder if root is None else root
        self.pooling = pooling
        self.head = head
        self._path = path

    @property
    def encoder(self) -> Any:
        """The encoder itself."""
        return self.model.get_submodule(self._path) if self._path else self.model

    @property
    def layers(self) -> list[nn.Module]:
        """The transformer layers, from the lowest."""
        return list(cast("nn.ModuleList", self.encoder.get_submodule(self.layer_path)))

    @property
    def width(self) -> int:
        """Width of the hidden states, and of the word embeddings."""
        return int(self.encoder.config.hidden_size)

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        if self.head is None:
            return self.width
        with torch.no_grad():
            return int(self.head(torch.zeros(1, 2, self.width)).shape[-1])

    @property
    def max_length(self) -> int:
        """Tokens that the positions allow, special tokens included."""
        return int(self.encoder.config.max_position_embeddings)

    def length(self, tokens: int) -> int:
        """Tell how many hidden states a text has.

        Args:
            tokens: number of its tokens.

        Returns:
            The same number, unless the family pads to a fixed length.
        """
        return tokens

    def targets(self, gate_layer: int) -> list[str]:
        """List the linear layers above the gate.

        Args:
            gate_layer: number of layers below it.

        Returns:
            Dotted paths from :attr:`model`, from the lowest.
        """
        prefix = f"{self._path}." if self._path else ""
        return [
            f"{prefix}{self.layer_path}.{index}.{name}"
            for index, layer in enumerate(self.layers)
            if index >= gate_layer
            for name, module in layer.named_modules()
            if isinstance(module, nn.Linear)
        ]

    def words(self, ids: Tensor) -> Tensor:
        """Look up word embeddings.

        Args:
            ids: int64 (n, t).

        Returns:
            float32 (n, t, width).
        """
        return cast("Tensor", self.encoder.embeddings.word_embeddings(ids))

    def begin(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Make the input of the first layer.

        Args:
            words: float32 (n, t, width).
            mask: float32 (n, t), 1 for tokens, 0 for padding, which is on the right.

        Returns:
            Hidden states and their mask; only fixed-length families lengthen them.
        """
        embeddings = self.encoder.embeddings
        positions = embeddings.position_embeddings.weight[: words.shape[1]]
        kind = embeddings.token_type_embeddings.weight[0]
        return embeddings.LayerNorm(words + positions + kind), mask

    def context(self, hidden: Tensor, mask: Tensor) -> Any:
        """Make what all layers share.

        Args:
            hidden: float32 (n, t, width); only its shape counts.
            mask: float32 (n, t).

        Returns:
            The third argument of :meth:`layer`.
        """
        return blocked(mask)

    def layer(self, index: int, hidden: Tensor, context: Any) -> Tensor:
        """Run one layer.

        Args:
            index: counted from 0.
            hidden: float32 (n, t, width).
            context: from :meth:`context`.

        Returns:
            float32 (n, t, width).
        """
        return cast("Tensor", self.layers[index](hidden, context))

    def last(self, hidden: Tensor) -> Tensor:
        """Apply what follows the last layer.

        Args:
            hidden: float32 (n, t, width).

        Returns:
            float32 (n, t, width).
        """
        return hidden

    def finish(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Turn the states above the last layer into vectors.

        Args:
            hidden: float32 (n, t, width).
            mask: float32 (n, t).

        Returns:
            float32 (n, dim), unit norm.
        """
        pooled = pool(self.last(hidden), mask, self.pooling)
        if self.head is not None:
            pooled = self.head(pooled)
        return normalize(pooled[:, 0], dim=-1)

    def run(self, hidden: Tensor, mask: Tensor, start: int, stop: int) -> Tensor:
        """Run several layers.

        Args:
            hidden: float32 (n, t, width).
            mask: float32 (n, t).
            start: the first.
            stop: the one after the last.

        Returns:
            float32 (n, t, width).
        """
        context = self.context(hidden, mask)
        for index in range(start, stop):
            hidden = self.layer(index, hidden, context)
        return hidden

    def whole(self, ids: Tensor) -> Tensor:
        """Encode one text by the model's own forward pass: the yardstick for all of the above.

        Args:
            ids: int64 (1, t), without padding.

        Returns:
            float32 (1, dim), unit norm.
        """
        mask = torch.ones_like(ids)
        states = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        pooled = pool(states, mask.float(), self.pooling)
        if self.head is not None:
            pooled = self.head(pooled)
        return normalize(pooled[:, 0], dim=-1)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Encode texts.

        Args:
            ids: int64 (n, t).
            mask: int64 (n, t).

        Returns:
            float32 (n, dim), unit norm.
        """
        hidden, real = self.begin(self.words(ids), mask.float())
        return self.finish(self.run(hidden, real, 0, len(self.layers)), real)


def blocked(mask: Tensor) -> Tensor:
    """Make the attention bias that hides padding.

    Args:
        mask: float32 (n, t).

    Returns:
        float32 (n, 1, 1, t).
    """
    return ((1.0 - mask) * BLOCKED)[:, None, None, :]


def pool(hidden: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """Reduce token states to one, given twice.

    Products with a single row add in another order for odd lengths, and ONNX Runtime's ReduceSum
    does for a batch of one; with two equal rows a vector does not depend on its batch.

    Args:
        hidden: float32 (n, t, width).
        mask: float32 (n, t).
        pooling: ``"mean"``, ``"cls"`` or ``"last"``, the last token that is not padding.

    Returns:
        float32 (n, 2, width), both rows the same.
    """
    if pooling == "cls":
        return hidden[:, :1].expand(-1, 2, -1)
    if pooling == "last":
        after = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], dim=1)
        share = mask - after
    else:
        share = mask / mask.sum(dim=1, keepdim=True).clamp(min=1.0)
    return torch.matmul(share.unsqueeze(1).expand(-1, 2, -1), hidden)
