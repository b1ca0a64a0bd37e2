"""The baseline that the composed expert is compared with: an MLP over both vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import BertModel

from .composed_model import Tokens
from .towers import FEATURES, TEXT_DIM, mean_pool


class Combiner(nn.Module):
    """Sum of image and text vector plus a correction from a hidden layer.

    Args:
        tower: The frozen text tower.
        hidden: Width of the hidden layer.
        dropout: Dropout of the inputs and of the hidden layer.
    """

    def __init__(self, tower: BertModel, hidden: int = 512, dropout: float = 0.2) -> None:
        super().__init__()
        self.tower = tower.requires_grad_(False)
        self.norm = nn.LayerNorm(FEATURES)
        self.layers = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(FEATURES + 2 * TEXT_DIM, hidden),
            nn.GELU(),
            nn.Dropout(dropout),
        )
        self.outer = nn.Linear(hidden, TEXT_DIM)
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    def train(self, mode: bool = True) -> Combiner:
        """Switch the new layers only: the frozen tower never drops anything.

        Args:
            mode: True to train.

        Returns:
            The module itself.
        """
        super().train(mode)
        self.tower.eval()
        return self

    @torch.no_grad()
    def encode_plain(self, tokens: Tokens) -> Tensor:
        """Run the frozen text tower.

        Args:
            tokens: The texts.

        Returns:
            Unit vectors [n, 384].
        """
        states = self.tower(input_ids=tokens.ids, attention_mask=tokens.mask)
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
        texts = self.encode_plain(tokens)
        scaled = TEXT_DIM**0.5 * torch.cat([vectors, texts], 1)
        hidden = self.layers(torch.cat([self.norm(features), scaled], 1))
        return nn.functional.normalize(vectors + texts + self.outer(hidden), dim=-1)
