"""Composed queries: an image as pseudo-words ahead of the text that modifies it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn
from transformers import BertModel

from .towers import FEATURES, TEXT_DIM, mean_pool

LORA_TARGETS = (
    r"encoder\.layer\.[345]\.(attention\.self\.(query|key|value)|attention\.output\.dense"
    r"|intermediate\.dense|output\.dense)"
)


@dataclass(frozen=True)
class ComposedConfig:
    """Shape of the composed expert.

    Attributes:
        words: Number of pseudo-words.
        hidden: Width of the hidden layer of the pseudo-word network, and of the correction.
        dropout: Dropout of its input and of its hidden layer.
        rank: Rank of the LoRA.
        alpha: LoRA scale, divided by the rank.
        lora_dropout: Dropout of the LoRA input.
        residual_dropout: Share of the training rows that go without the residual, so that
            the pseudo-words learn to say all that the image shows.
    """

    words: int = 2
    hidden: int = 256
    dropout: float = 0.2
    rank: int = 16
    alpha: int = 32
    lora_dropout: float = 0.05
    residual_dropout: float = 0.3


def gelu(inputs: Tensor) -> Tensor:
    """The GELU in the form that NumPy can compute as well."""
    return nn.functional.gelu(inputs, approximate="tanh")


class PseudoWords(nn.Module):
    """Maps an image to word embeddings of the text tower.

    Args:
        config: Shape of the expert.
    """

    def __init__(self, config: ComposedConfig) -> None:
        super().__init__()
        self.words = config.words
        self.norm = nn.LayerNorm(FEATURES)
        self.input_dropout = nn.Dropout(config.dropout)
        self.inner = nn.Linear(FEATURES + TEXT_DIM, config.hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.outer = nn.Linear(config.hidden, config.words * TEXT_DIM)
        # Word embeddings of this tower are about 1.4 long; start no larger than those.
        nn.init.normal_(self.outer.weight, std=0.02)
        nn.init.zeros_(self.outer.bias)

    def forward(self, features: Tensor, vectors: Tensor) -> Tensor:
        """Compute the pseudo-words.

        Args:
            features: float [n, 1744].
            vectors: Unit image vectors [n, 384] without the lift.

        Returns:
            float [n, words, 384].
        """
        # Unit vectors have small entries; scaled, they weigh as much as the features.
        scaled = vectors * TEXT_DIM**0.5
        inputs = self.input_dropout(torch.cat([self.norm(features), scaled], 1))
        hidden = self.dropout(gelu(self.inner(inputs)))
        return self.outer(hidden).view(-1, self.words, TEXT_DIM)


class Correction(nn.Module):
    """What a hidden layer makes of the text tower's vector and the image's own.

    Args:
        config: Shape of the expert.
    """

    def __init__(self, config: ComposedConfig) -> None:
        super().__init__()
        self.input_dropout = nn.Dropout(config.dropout)
        self.inner = nn.Linear(2 * TEXT_DIM, config.hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.outer = nn.Linear(config.hidden, TEXT_DIM)
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    def forward(self, queries: Tensor, vectors: Tensor) -> Tensor:
        """Compute what is added to the query.

        Args:
            queries: Unit vectors [n, 384] of the text tower.
            vectors: Unit image vectors [n, 384] without the lift.

        Returns:
            float [n, 384].
        """
        scaled = torch.cat([queries, vectors], 1) * TEXT_DIM**0.5
        return self.outer(self.dropout(gelu(self.inner(self.input_dropout(scaled)))))


class Residual(nn.Module):
    """Adds the image's own vector with a weight that the query decides, or takes it away.

    A query that keeps the picture has a share near 1. One that leaves it has a share near 0, and
    ``away`` pushes it off the pictures that look like the reference.

    Args:
        dropout: Share of the training rows that go without.
    """

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.weight = nn.Linear(TEXT_DIM, 1)
        self.away: Tensor
        self.register_buffer("away", torch.zeros(()))
        nn.init.zeros_(self.weight.weight)
        nn.init.zeros_(self.weight.bias)

    def forward(self, queries: Tensor, vectors: Tensor) -> Tensor:
        """Compute what is added to the query.

        Args:
            queries: Unit vectors [n, 384] of the text tower.
            vectors: Unit image vectors [n, 384] without the lift.

        Returns:
            float [n, 384].
        """
        share = torch.sigmoid(self.weight(queries * TEXT_DIM**0.5))
        if self.training:
            return share * (torch.rand_like(share) >= self.dropout) * vectors
        return (share - self.away * (1 - share) ** 2) * vectors


class Tokens(NamedTuple):
    """Tokenised modification texts.

    Attributes:
        ids: int64 [n, t].
        mask: int64 [n, t].
    """

    ids: Tensor
    mask: Tensor


class ComposedEncoder(nn.Module):
    """Pseudo-words and text through the text tower with LoRA, plus the residual.

    Args:
        tower: The frozen text tower.
        config: Shape of the expert.
    """

    def __init__(self, tower: BertModel, config: ComposedConfig) -> None:
        super().__init__()
        self.config = config
        self.tower: PeftModel = get_peft_model(
            tower,
            LoraConfig(
                r=config.rank,
                lora_alpha=config.alpha,
                lora_dropout=config.lora_dropout,
                target_modules=LORA_TARGETS,
            ),
        )
        self.pseudo_words = PseudoWords(config)
        self.correction = Correction(config)
        self.residual = Residual(config.residual_dropout)

    def scale(self, strength: float) -> None:
        """Set the strength of the adapter; 1 is full.

        Args:
            strength: Share of the trained update.
        """
        for module in self.tower.modules():
            if isinstance(module, LoraLayer):
                module.scaling["default"] = strength * self.config.alpha / self.config.rank

    def encode(self, prefix: Tensor, tokens: Tokens) -> Tensor:
        """Run the text tower with pseudo-words after the first token.

        Args:
            prefix: float [n, words, 384].
            tokens: The texts.

        Returns:
            Unit vectors [n, 384].
        """
        table = self.tower.get_input_embeddings()
        words = table(tokens.ids)
        words = torch.cat([words[:, :1], prefix, words[:, 1:]], 1)
        ones = torch.ones(prefix.shape[:2], dtype=tokens.mask.dtype)
        mask = torch.cat([tokens.mask[:, :1], ones, tokens.mask[:, 1:]], 1)
        states = self.tower(inputs_embeds=words, attention_mask=mask).last_hidden_state
        return mean_pool(states, mask)

    @torch.no_grad()
    def encode_plain(self, tokens: Tokens) -> Tensor:
        """Run the frozen text tower without LoRA and without pseudo-words.

        Args:
            tokens: The texts.

        Returns:
            Unit vectors [n, 384].
        """
        training = self.tower.training
        self.tower.eval()
        with self.tower.disable_adapter():
            states = self.tower(input_ids=tokens.ids, attention_mask=tokens.mask)
        self.tower.train(training)
        return mean_pool(states.last_hidden_state, tokens.mask)

    def forward(self, features: Tensor, vectors: Tensor, tokens: Tokens) -> Tensor:
        """Embed composed queries.

        Args:
            features: Features of the reference images, [n, 1744].
            vectors: Their unit vectors [n, 384] without the lift.
            tokens: The modification texts.

        Returns:
            Unit vectors [n, 384].
        """
        queries = self.encode(self.pseudo_words(features, vectors), tokens)
        moved = queries + self.correction(queries, vectors) + self.residual(queries, vectors)
        return nn.functional.normalize(moved, dim=-1)
