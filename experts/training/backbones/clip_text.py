"""Text towers of open_clip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from ....errors import ExportError
from .base import BLOCKED, TextBackbone, pool
from .encoders import family

_POOLING = {"argmax": "last", "eos": "last", "first": "cls", "last": "end"}


@dataclass(frozen=True)
class ClipTextSettings:
    """How a text transformer of open_clip reads its tokens.

    Attributes:
        pooling: ``"last"`` (the end token), ``"cls"`` or ``"end"``, the last position of all.
        causal: a token sees only what stands before it.
        pad_id: the token that fills up to the context length.
    """

    pooling: str
    causal: bool
    pad_id: int

    @property
    def fixed_length(self) -> bool:
        """True when padding takes part, so that every text must have the full length."""
        return self.pooling == "end" or not self.causal


class ClipTextBackbone(TextBackbone):
    """open_clip's own text transformer, within ``CLIP`` or ``CustomTextCLIP``.

    Args:
        model: the open_clip model, its attention split.
        path: where the text transformer is; empty for ``CLIP``, whose root it is.
        settings: pooling, masks and padding; ``CLIP`` itself keeps only some of them.
    """

    layer_path = "transformer.resblocks"

    def __init__(self, model: nn.Module, path: str, settings: ClipTextSettings) -> None:
        super().__init__(model, pooling="last", root=model, path=path)
        self.settings = settings

    @property
    def width(self) -> int:
        """Width of the hidden states."""
        return int(self.encoder.token_embedding.weight.shape[1])

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        projection = self.encoder.text_projection
        if projection is None:
            return self.width
        weight = projection.weight.T if isinstance(projection, nn.Linear) else projection
        return int(weight.shape[1])

    @property
    def max_length(self) -> int:
        """Tokens that the positions allow."""
        return int(self.encoder.positional_embedding.shape[0])

    def length(self, tokens: int) -> int:
        """See the base class."""
        return self.max_length if self.settings.fixed_length else tokens

    def words(self, ids: Tensor) -> Tensor:
        """See the base class."""
        return cast("Tensor", self.encoder.token_embedding(ids))

    def begin(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """See the base class. Towers that see their padding get all of it."""
        positions = self.encoder.positional_embedding
        if self.settings.fixed_length:
            longest = self.max_length
            padding = self.encoder.token_embedding.weight[self.settings.pad_id]
            real = mask.unsqueeze(-1)
            words = words * real + padding * (1.0 - real)
            rest = padding.expand(words.shape[0], longest, -1)
            words = torch.cat([words, rest], dim=1)[:, :longest]
            none = torch.zeros(mask.shape[0], longest, dtype=mask.dtype)
            mask = torch.cat([mask, none], dim=1)[:, :longest]
        return words + positions[: words.shape[1]], mask

    def context(self, hidden: Tensor, mask: Tensor) -> Any:
        """See the base class."""
        if not self.settings.causal:
            return None
        at = torch.arange(hidden.shape[1])
        return (at[None, :] > at[:, None]).float()[None, None] * BLOCKED

    def layer(self, index: int, hidden: Tensor, context: Any) -> Tensor:
        """See the base class."""
        return cast("Tensor", self.layers[index](hidden, attn_mask=context))

    def last(self, hidden: Tensor) -> Tensor:
        """See the base class."""
        return cast("Tensor", self.encoder.ln_final(hidden))

    def whole(self, ids: Tensor) -> Tensor:
        """See the base class."""
        padded = torch.full((1, self.max_length), self.settings.pad_id, dtype=ids.dtype)
        padded[:, : ids.shape[1]] = ids
        return nn.functional.normalize(cast("Any", self.model).encode_text(padded), dim=-1)

    def finish(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """See the base class."""
        states = self.last(hidden)
        if self.settings.pooling == "end":
            pooled = states[:, -1:].expand(-1, 2, -1)
        else:
            pooled = pool(states, mask, self.settings.pooling)
        projection = self.encoder.text_projection
        if isinstance(projection, nn.Linear):
            pooled = projection(pooled)
        elif projection is not None:
            pooled = torch.matmul(pooled, projection)
        return nn.functional.normalize(pooled[:, 0], dim=-1)


def clip_text(model: nn.Module) -> TextBackbone:
    """Find the text tower of an open_clip model.

    Args:
        model: ``CLIP`` or ``CustomTextCLIP``, its attention split.

    Returns:
        The backbone.

    Raises:
        ExportError: naming a module that is not supported.
    """
    clip = cast("Any", model)
    if not hasattr(clip, "text"):
        if not hasattr(clip, "token_embedding"):
            raise ExportError(f"{type(model).__name__} of open_clip has no text tower to export")
        causal = clip.attn_mask is not None
        pooling = _pooling(clip.text_pool_type, "text_pool_type")
        return ClipTextBackbone(model, "", ClipTextSettings(pooling, causal, 0))
    text, name = clip.text, type(clip.text).__name__
    if name == "HFTextEncoder":
        return _hugging_face(model, text)
    if name != "TextTransformer":
        raise ExportError(f"text ({name}) is no text tower that can be exported")
    if text.cls_emb is not None:
        raise ExportError(
            "text.cls_emb: text towers with an appended class token (CoCa) are not supported"
        )
    if text.use_pad_mask:
        raise ExportError(
            "text.use_pad_mask: towers that hide padding by its token id are not supported"
        )
    causal = text.attn_mask is not None
    pooling = _pooling(text.pool_type, "text.pool_type")
    settings = ClipTextSettings(pooling, causal, int(text.pad_id))
    return ClipTextBackbone(model, "text", settings)


def _pooling(kind: str, name: str) -> str:
    if kind not in _POOLING:
        raise ExportError(f"{name} {kind!r} gives no single vector")
    return _POOLING[kind]


def _hugging_face(model: nn.Module, text: Any) -> TextBackbone:
    encoder = text.transformer
    encoder.set_attn_implementation("eager")
    pooler = type(text.pooler).__name__
    steps: list[nn.Module] = []
    if pooler == "MeanPooler":
        pooling = "mean"
    elif pooler in ("ClsPooler", "ClsLastHiddenStatePooler"):
        pooling = "cls"
        own = getattr(encoder, "pooler", None)
        if pooler == "ClsPooler" and text.pooler.use_pooler_output and own is not None:
            steps = [own.dense, own.activation]
    else:
        raise ExportError(f"text.pooler ({pooler}) is not supported; mean and cls poolers are")
    if not isinstance(text.proj, nn.Identity):
        steps.append(text.proj)
    head = nn.Sequential(*steps) if steps else None
    kind = family(encoder)
    return kind(encoder, pooling=pooling, head=head, root=model, path="text.transformer")
