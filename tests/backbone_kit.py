"""Small backbones with random weights, saved in the formats that people have them in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")
pytest.importorskip("open_clip")
pytest.importorskip("onnx")
pytest.importorskip("onnxscript")

from safetensors.torch import save_file  # noqa: E402
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors  # noqa: E402
from tokenizers.normalizers import BertNormalizer  # noqa: E402

SIZE = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
}


def tokenizer(kind: str) -> Any:
    """A tokenizer of single characters and short pieces, special tokens as the family has them."""
    pieces = [chr(code) for code in range(33, 127)]
    pieces += [f"##{one}" for one in pieces] + ["the", "of", "value", "##ing", "##er"]
    if kind == "bert":
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        start, end, unknown, pad = "[CLS]", "[SEP]", "[UNK]", "[PAD]"
    else:
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        start, end, unknown, pad = "<s>", "</s>", "<unk>", "<pad>"
    vocabulary = {piece: row for row, piece in enumerate([*special, *pieces])}
    inner = Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
    inner.normalizer = BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    inner.post_processor = processors.TemplateProcessing(
        f"{start} $A {end}",
        special_tokens=[(start, vocabulary[start]), (end, vocabulary[end])],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token=unknown,
        pad_token=pad,
        cls_token=start,
        sep_token=end,
        mask_token=special[-1],
        model_max_length=120,
    )


def _wide(model: Any) -> Any:
    """Spread the weights, so that layers matter: with 0.02 a vector hardly leaves its embedding."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and "embedding" not in name:
                weight.normal_(0, weight.shape[1] ** -0.5)
            elif weight.ndim == 2:
                weight.normal_(0, 0.5)
            elif "bias" in name:
                weight.normal_(0, 0.05)
    return model.eval()


def encoder(kind: str) -> Any:
    """A text encoder of ``transformers``."""
    torch.manual_seed(0)
    vocab = len(tokenizer("bert" if kind in ("bert", "nomic_bert", "modernbert") else "roberta"))
    if kind == "bert":
        config = transformers.BertConfig(vocab_size=vocab, max_position_embeddings=128, **SIZE)
        return _wide(transformers.BertModel(config))
    if kind == "xlm-roberta":
        config = transformers.XLMRobertaConfig(
            vocab_size=vocab, max_position_embeddings=130, type_vocab_size=1, pad_token_id=1, **SIZE
        )
        return _wide(transformers.XLMRobertaModel(config))
    if kind == "mpnet":
        config = transformers.MPNetConfig(vocab_size=vocab, max_position_embeddings=130, **SIZE)
        return _wide(transformers.MPNetModel(config))
    special = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3}
    special |= {"bos_token_id": 2, "eos_token_id": 3}
    if kind == "modernbert":
        config = transformers.ModernBertConfig(
            vocab_size=vocab,
            max_position_embeddings=256,
            local_attention=16,
            global_attn_every_n_layers=2,
            **SIZE,
            **special,
        )
        return _wide(transformers.ModernBertModel(config))
    config = transformers.NomicBertConfig(
        vocab_size=vocab, max_position_embeddings=128, pad_token_id=0, **SIZE
    )
    return _wide(transformers.NomicBertModel(config))


def save_encoder(folder: Path, kind: str, *, pooling: str = "mean", dense: int = 0) -> Path:
    """Write an encoder as sentence-transformers does."""
    encoder(kind).save_pretrained(folder)
    tokenizer(
        "bert" if kind in ("bert", "nomic_bert", "modernbert") else "roberta"
    ).save_pretrained(folder)
    names = {"mean": "mean_tokens", "cls": "cls_token", "lasttoken": "lasttoken"}
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    (folder / "1_Pooling").mkdir()
    flags = {f"pooling_mode_{name}": mode == pooling for mode, name in names.items()}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 48, **flags})
    if dense:
        modules.append(("2_Dense", "Dense"))
        (folder / "2_Dense").mkdir()
        config = {
            "in_features": 48,
            "out_features": dense,
            "bias": True,
            "activation_function": "torch.nn.modules.activation.Tanh",
        }
        write_json(folder / "2_Dense" / "config.json", config)
        torch.manual_seed(2)
        weights = {"linear.weight": torch.randn(dense, 48) * 0.1, "linear.bias": torch.randn(dense)}
        save_file(weights, folder / "2_Dense" / "model.safetensors")
    modules.append((f"{len(modules)}_Normalize", "Normalize"))
    listing = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (path, kind) in enumerate(modules)
    ]
    write_json(folder / "modules.json", listing)
    write_json(
        folder / "sentence_bert_config.json", {"max_seq_length": 100, "do_lower_case": False}
    )
    return folder


CLIP = {
    "embed_dim": 40,
    "quick_gelu": True,
    "vision_cfg": {"image_size": 64, "layers": 2, "width": 64, "head_width": 16, "patch_size": 16},
    "text_cfg": {
        "context_length": 77,
        "vocab_size": 49408,
        "width": 48,
        "heads": 4,
        "layers": 2,
    },
}
PREPROCESS = {"size": 64, "interpolation": "bicubic", "resize_mode": "shortest"}


def clip_config(**text: Any) -> dict[str, Any]:
    """The configuration of a small CLIP, its text tower changed."""
    return {**CLIP, "text_cfg": {**CLIP["text_cfg"], **text}}  # type: ignore[dict-item]


def save_clip(folder: Path, config: dict[str, Any], *, custom: bool = False, **prep: Any) -> Path:
    """Write an open_clip model as ``local-dir:`` reads it."""
    from open_clip.model import CLIP as Plain
    from open_clip.model import CustomTextCLIP

    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    options = dict(config)
    model = (CustomTextCLIP if custom else Plain)(**options).eval()
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("in_proj_bias"):
                weight.normal_(0, 0.05)
            elif name.endswith("token_embedding.weight"):
                weight.normal_(0, 0.3)
    stored = {**config, **({"custom_text": True} if custom else {})}
    record = {"model_cfg": stored, "preprocess_cfg": {**PREPROCESS, **prep}}
    write_json(folder / "open_clip_config.json", record)
    state = {name: value.contiguous() for name, value in model.state_dict().items()}
    save_file(state, folder / "open_clip_model.safetensors")
    return folder


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
