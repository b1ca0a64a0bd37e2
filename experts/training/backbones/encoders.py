"""Encoders of ``transformers`` that can serve as text towers."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from ....errors import ExportError
from .base import BLOCKED, TextBackbone, blocked


class BertBackbone(TextBackbone):
    """BERT."""


class RobertaBackbone(TextBackbone):
    """RoBERTa, XLM-R, CamemBERT: positions begin after the padding index."""

    @property
    def max_length(self) -> int:
        """Tokens that the positions allow."""
        return super().max_length - int(self.encoder.config.pad_token_id) - 1

    def begin(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """See the base class."""
        embeddings = self.encoder.embeddings
        first = int(self.encoder.config.pad_token_id) + 1
        positions = embeddings.position_embeddings.weight[first : first + words.shape[1]]
        kind = embeddings.token_type_embeddings.weight[0]
        return embeddings.LayerNorm(words + kind + positions), mask


class MPNetBackbone(TextBackbone):
    """MPNet: positions begin at 2, and attention scores carry a bias by distance."""

    @property
    def max_length(self) -> int:
        """Tokens that the positions allow."""
        return super().max_length - 2

    def begin(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """See the base class."""
        embeddings = self.encoder.embeddings
        first = embeddings.padding_idx + 1
        positions = embeddings.position_embeddings.weight[first : first + words.shape[1]]
        return embeddings.LayerNorm(words + positions), mask

    def context(self, hidden: Tensor, mask: Tensor) -> Any:
        """See the base class."""
        # One row: the bias is the same for all.
        bias = self.encoder.encoder.compute_position_bias(hidden[:1])
        return blocked(mask), bias

    def layer(self, index: int, hidden: Tensor, context: Any) -> Tensor:
        """See the base class."""
        bias, distance = context
        return cast("Tensor", self.layers[index](hidden, bias, position_bias=distance)[0])


class ModernBertBackbone(TextBackbone):
    """ModernBERT: rotary positions, most layers see a window only."""

    layer_path = "layers"

    def words(self, ids: Tensor) -> Tensor:
        """See the base class."""
        return cast("Tensor", self.encoder.embeddings.tok_embeddings(ids))

    def begin(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """See the base class."""
        return self.encoder.embeddings.norm(words), mask

    def context(self, hidden: Tensor, mask: Tensor) -> Any:
        """See the base class."""
        encoder = self.encoder
        at = torch.arange(hidden.shape[1])
        bias = blocked(mask)
        # The configuration's window is half of it, to either side.
        far = (at[:, None] - at[None, :]).abs() > encoder.config.sliding_window
        seen = {"full_attention": bias, "sliding_attention": bias + far.float() * BLOCKED}
        return {
            kind: (seen[kind], encoder.rotary_emb(hidden, at[None], kind))
            for kind in sorted(set(encoder.config.layer_types))
        }

    def layer(self, index: int, hidden: Tensor, context: Any) -> Tensor:
        """See the base class."""
        bias, rotary = context[self.encoder.config.layer_types[index]]
        layer = self.layers[index]
        return cast("Tensor", layer(hidden, attention_mask=bias, position_embeddings=rotary))

    def last(self, hidden: Tensor) -> Tensor:
        """See the base class."""
        return cast("Tensor", self.encoder.final_norm(hidden))


class NomicBertBackbone(TextBackbone):
    """Nomic BERT: rotary positions, gated feed-forward layers."""

    layer_path = "layers"

    def begin(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """See the base class."""
        embeddings = self.encoder.embeddings
        kind = embeddings.token_type_embeddings.weight[0]
        return embeddings.LayerNorm(words + kind), mask

    def context(self, hidden: Tensor, mask: Tensor) -> Any:
        """See the base class."""
        at = torch.arange(hidden.shape[1])[None]
        return blocked(mask), self.encoder.rotary_emb(hidden, at)

    def layer(self, index: int, hidden: Tensor, context: Any) -> Tensor:
        """See the base class."""
        bias, rotary = context
        layer = self.layers[index]
        return cast("Tensor", layer(hidden, attention_mask=bias, position_embeddings=rotary))


FAMILIES: dict[str, type[TextBackbone]] = {
    "bert": BertBackbone,
    "camembert": RobertaBackbone,
    "modernbert": ModernBertBackbone,
    "mpnet": MPNetBackbone,
    "nomic_bert": NomicBertBackbone,
    "roberta": RobertaBackbone,
    "xlm-roberta": RobertaBackbone,
}
"""Backbones by the ``model_type`` of their configuration."""


def family(encoder: nn.Module) -> type[TextBackbone]:
    """Find the backbone class of an encoder.

    Args:
        encoder: a ``transformers`` model.

    Returns:
        The class.

    Raises:
        ExportError: naming a module that is not supported.
    """
    config = cast("Any", encoder).config
    found = FAMILIES.get(config.model_type)
    name = type(encoder).__name__
    if found is None:
        raise ExportError(
            f"text encoder {name} (model type {config.model_type!r}) is not supported; "
            f"supported types: {', '.join(sorted(FAMILIES))}"
        )
    kind = getattr(config, "position_embedding_type", None) or "absolute"
    if getattr(config, "is_decoder", False) or kind != "absolute":
        raise ExportError(
            f"{name}.encoder is not supported: is_decoder is "
            f"{getattr(config, 'is_decoder', False)}, positions are {kind!r}; "
            "only bidirectional encoders with absolute positions are"
        )
    return found
