"""Text encoders of ``transformers``, with pooling as sentence-transformers keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, normalizers
from torch import nn
from transformers import AutoModel, AutoTokenizer

from ....errors import ExportError
from .encoders import family
from .source import BackboneSource, hub_errors, weights_provenance

_LEGACY = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_lasttoken": "lasttoken",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_weightedmean_tokens": "weightedmean",
}
# Only the length differs between a mean and a sum over a root, and vectors have unit norm.
_POOLING = {"mean": "mean", "mean_sqrt_len_tokens": "mean", "cls": "cls", "lasttoken": "last"}
_ACTIVATIONS = {"Identity": nn.Identity, "Tanh": nn.Tanh, "GELU": nn.GELU, "ReLU": nn.ReLU}
_PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model"]
_LONGEST = 8192


@dataclass(frozen=True)
class SentenceModules:
    """What sentence-transformers adds to an encoder.

    Attributes:
        encoder: folder of the encoder.
        pooling: as :class:`TextBackbone` names it.
        head: layers after pooling; ``None`` without any.
        max_tokens: limit, if one is set.
        lower: texts are lower-cased.
    """

    encoder: Path
    pooling: str
    head: nn.Module | None
    max_tokens: int | None
    lower: bool


def load_hugging_face(name: str) -> BackboneSource:
    """Load a text encoder.

    Args:
        name: a local folder, or a name on the Hugging Face hub. ``HF_HUB_OFFLINE`` is respected.

    Returns:
        The source, without a vision tower.

    Raises:
        ExportError: when it cannot be fetched or read, or a module is not supported.
    """
    folder = local_folder(name)
    modules = _modules(folder)
    weights = sorted(modules.encoder.glob("*.safetensors"))
    if not weights:
        raise ExportError(f"{modules.encoder} has no .safetensors weights; convert them first")
    try:
        encoder = AutoModel.from_pretrained(modules.encoder, attn_implementation="eager")
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ExportError(f"cannot load the encoder in {modules.encoder}: {error}") from error
    encoder = encoder.eval().requires_grad_(False).float()
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None  # never used by sentence vectors
    kind = family(encoder)
    text = kind(encoder, pooling=modules.pooling, head=modules.head).eval()
    tokenizer, limit = fast_tokenizer(modules.encoder)
    if modules.lower:
        own = [] if tokenizer.normalizer is None else [tokenizer.normalizer]
        tokenizer.normalizer = normalizers.Sequence([*own, normalizers.Lowercase()])
    asked = modules.max_tokens or min(limit, _LONGEST)
    shown = folder.name if Path(name).is_dir() else name
    return BackboneSource(
        name=shown,
        spec=f"hf:{folder.resolve() if Path(name).is_dir() else name}",
        text=text,
        tokenizer=tokenizer,
        max_tokens=min(asked, text.max_length),
        provenance=(weights_provenance("text tower and tokenizer", f"hf:{shown}", "", weights[0]),),
    )


def local_folder(name: str) -> Path:
    """Find a model on disk, or fetch it.

    Args:
        name: a folder or a name on the hub.

    Returns:
        The folder.

    Raises:
        ExportError: when the hub cannot be reached or has no such model.
    """
    if Path(name).is_dir():
        return Path(name)
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise ExportError(f"no folder {name!r}, and no name on the Hugging Face hub")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    with hub_errors(f"{name!r} from the Hugging Face hub"):
        try:
            return Path(
                snapshot_download(name, allow_patterns=_PATTERNS, ignore_patterns=["*/onnx*"])
            )
        except HFValidationError as error:
            raise ExportError(f"{name!r} is no folder and no name on the hub: {error}") from error


def fast_tokenizer(folder: Path) -> tuple[Tokenizer, int]:
    """Read a tokenizer in the format of ``tokenizers``, converting it where needed.

    Args:
        folder: with ``tokenizer.json``, or what ``transformers`` can convert.

    Returns:
        The tokenizer, and the longest input that its configuration names.

    Raises:
        ExportError: when there is no fast form of it.
    """
    try:
        loaded: Any = AutoTokenizer.from_pretrained(folder)
        tokenizer = Tokenizer.from_str(loaded.backend_tokenizer.to_str())
    except Exception as error:
        raise ExportError(
            f"the tokenizer in {folder} has no fast form, so tokenizer.json cannot be written: "
            f"{error}"
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer, int(min(loaded.model_max_length, 1_000_000))


def _modules(folder: Path) -> SentenceModules:
    listing = folder / "modules.json"
    if not listing.is_file():
        return SentenceModules(folder, "mean", None, None, False)
    encoder, pooling, steps = folder, "mean", []
    for entry in _read(listing):
        kind, place = str(entry["type"]).rpartition(".")[2], folder / entry["path"]
        if kind == "Transformer":
            encoder = place
        elif kind == "Pooling":
            pooling = _pooling(place)
        elif kind == "Dense":
            steps.append(_dense(place))
        elif kind != "Normalize":
            raise ExportError(
                f"module {entry['path'] or entry['name']!r} of {folder} ({kind}) is not supported; "
                "Transformer, Pooling, Dense and Normalize are"
            )
    settings = encoder / "sentence_bert_config.json"
    config = _read(settings) if settings.is_file() else {}
    head = nn.Sequential(*steps).eval().requires_grad_(False) if steps else None
    return SentenceModules(
        encoder, pooling, head, config.get("max_seq_length"), bool(config.get("do_lower_case"))
    )


def _pooling(folder: Path) -> str:
    config = _read(folder / "config.json")
    modes = config.get("pooling_mode") or [mode for key, mode in _LEGACY.items() if config.get(key)]
    modes = [modes] if isinstance(modes, str) else list(modes) or ["mean"]
    if len(modes) != 1 or modes[0] not in _POOLING:
        raise ExportError(
            f"module {folder.name!r} (Pooling) uses {' + '.join(modes)}, which is not supported; "
            f"one of {', '.join(_POOLING)} is"
        )
    return _POOLING[modes[0]]


def _dense(folder: Path) -> nn.Module:
    config = _read(folder / "config.json")
    activation = str(config.get("activation_function", "Tanh")).rpartition(".")[2]
    if activation not in _ACTIVATIONS:
        raise ExportError(f"module {folder.name!r} (Dense): activation {activation} not supported")
    linear = nn.Linear(config["in_features"], config["out_features"], config.get("bias", True))
    try:
        state = load_file(folder / "model.safetensors")
    except (OSError, ValueError) as error:
        raise ExportError(f"module {folder.name!r} (Dense): {error}") from error
    own = {name.removeprefix("linear."): value.to(torch.float32) for name, value in state.items()}
    linear.load_state_dict(own)
    return nn.Sequential(linear, _ACTIVATIONS[activation]())


def _read(path: Path) -> Any:
    try:
        return cast("Any", json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ExportError(f"cannot read {path}: {error}") from error
