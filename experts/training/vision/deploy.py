"""The module that is exported as the image head of a model directory."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor, nn

from .composed_model import ComposedConfig, PseudoWords
from .head import HeadConfig, ImageHead
from .towers import TEXT_DIM


class DeployedHead(nn.Module):
    """Image head and pseudo-words in one module.

    Args:
        head: The trained image head.
        pseudo_words: The trained pseudo-words.
    """

    def __init__(self, head: ImageHead, pseudo_words: PseudoWords) -> None:
        super().__init__()
        self.head = head
        self.pseudo_words = pseudo_words

    def forward(self, features: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Compute what the rest of the system needs of an image.

        Args:
            features: float [n, 1744].
            logits: float [n, 1000].

        Returns:
            Lifted unit vectors [n, 384] and pseudo-words [n, words, 384].
        """
        vectors = self.head(features, logits)
        return self.head.lifted(vectors), self.pseudo_words(features, vectors)


def load_head(path: Path) -> ImageHead:
    """Load a trained image head with one member.

    Args:
        path: The weights, safetensors.

    Returns:
        The head in evaluation mode.
    """
    weights = load_file(path)
    hidden = weights["members.0.inner.weight"].shape[0]
    head = ImageHead(HeadConfig(hidden=hidden))
    head.load_state_dict(weights)
    head.eval()
    return head


def load_pseudo_words(path: Path) -> PseudoWords:
    """Load trained pseudo-words.

    Args:
        path: The weights of the composed expert beside its adapter, safetensors.

    Returns:
        The module in evaluation mode.
    """
    prefix = "pseudo_words."
    weights = {
        name.removeprefix(prefix): value
        for name, value in load_file(path).items()
        if name.startswith(prefix)
    }
    hidden = weights["inner.weight"].shape[0]
    words = weights["outer.bias"].shape[0] // TEXT_DIM
    module = PseudoWords(ComposedConfig(words=words, hidden=hidden))
    module.load_state_dict(weights)
    module.eval()
    return module


def load_deployed(head: Path, composed: Path) -> DeployedHead:
    """Load the module that is exported.

    Args:
        head: Weights of the image head.
        composed: Weights of the composed expert beside its adapter.

    Returns:
        The module in evaluation mode.
    """
    module = DeployedHead(load_head(head), load_pseudo_words(composed))
    module.eval()
    module.requires_grad_(False)
    return module
