"""A tiny random BERT and toy sets: training runs for real, in seconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from omniembed.types import Document

torch = pytest.importorskip("torch")
pytest.importorskip("peft")
pytest.importorskip("pytrec_eval")

from tokenizers import Tokenizer, models, pre_tokenizers, processors  # noqa: E402
from transformers import BertConfig, BertModel  # noqa: E402

from omniembed.experts.training.backbones.encoders import BertBackbone  # noqa: E402
from omniembed.experts.training.base import Base  # noqa: E402
from omniembed.experts.training.lora import upper_targets  # noqa: E402
from omniembed.experts.training.tower import TorchTower  # noqa: E402
from omniembed.experts.training.vectors import VectorCache  # noqa: E402
from omniembed.models.arrays import Floats  # noqa: E402

WORDS = [f"w{number}" for number in range(60)]
LINEARS = (
    "attention.self.query",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
LOWER = 1
LAYERS = 3


def tiny_tower() -> TorchTower:
    """Three layers of 32 dimensions over a vocabulary of sixty words, always the same."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    vocabulary = {word: row for row, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=160,
        initializer_range=0.2,
        attn_implementation="eager",
    )
    with torch.random.fork_rng():
        torch.manual_seed(7)
        bert = BertModel(config, add_pooling_layer=False)
    return TorchTower(BertBackbone(bert), tokenizer, LOWER)


def targets() -> tuple[str, ...]:
    names = [f"encoder.layer.{layer}.{name}" for layer in range(LAYERS) for name in LINEARS]
    return upper_targets(names, LOWER)


class TinyEncoder:
    """Embeds documents with the tiny tower; counts what it computed."""

    fingerprint = "tiny"
    dim = 32

    def __init__(self) -> None:
        self.tower = tiny_tower()
        self.computed = 0

    def encode(self, documents: Sequence[Document]) -> Floats:
        self.computed += len(documents)
        rows = []
        with torch.inference_mode():
            for ids in self.tower.tokenize([document.content for document in documents]):
                mask = torch.ones(1, len(ids), dtype=torch.bool)
                hidden = self.tower.lower(torch.tensor([ids]), mask)
                rows.append(self.tower.upper(hidden, mask)[0].numpy())
        return np.stack(rows)


def tiny_base(folder: Path) -> Base:
    return Base(
        fingerprint="tiny",
        tower=tiny_tower(),
        targets=targets(),
        cache=VectorCache(folder / "documents", TinyEncoder()),
        states=folder / "queries",
    )


def toy_records(documents: int, per_document: int) -> list[dict[str, object]]:
    """Pairs whose query shares one word with its document."""
    random = np.random.default_rng(3)
    records: list[dict[str, object]] = []
    for row in range(documents):
        words = [WORDS[row % 60], *random.choice(WORDS, 6)]
        for _ in range(per_document):
            query = " ".join([WORDS[row % 60], *random.choice(WORDS, 3)])
            records.append({"query": query, "positive": " ".join(words)})
    return records


def write_lines(path: Path, records: Sequence[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    return path
