"""Models of open_clip, from a local folder, a named checkpoint, or the hub."""

from __future__ import annotations

import json
import re
import string
import tempfile
from pathlib import Path
from typing import Any, cast

from tokenizers import Regex, Tokenizer, normalizers
from torch import nn

from ....errors import ExportError
from ....models.manifest import ImagePreprocessing
from .attention import split_attention
from .clip_text import clip_text
from .clip_tokenizer import clip_tokenizer
from .hugging_face import fast_tokenizer, local_folder
from .source import BackboneSource, VisionSource, hub_errors, weights_provenance

_CONFIG = "open_clip_config.json"
_SPACES = normalizers.Replace(Regex(r"\s+"), " ")
_CLEANING: dict[str, list[Any]] = {
    "_clean_canonicalize": [
        normalizers.Replace("_", " "),
        normalizers.Replace(Regex(f"[{re.escape(string.punctuation)}]"), ""),
        normalizers.Lowercase(),
        _SPACES,
        normalizers.Strip(),
    ],
    "_clean_lower": [_SPACES, normalizers.Lowercase()],
    "_clean_whitespace": [_SPACES],
}
"""What open_clip does to a text before a tokenizer of ``transformers`` reads it."""

_RESAMPLE = {"bicubic": "bicubic", "bilinear": "bilinear"}


def load_open_clip(name: str) -> BackboneSource:
    """Load both towers of an open_clip model.

    Args:
        name: a folder as ``open_clip.push_to_hf_hub`` or ``local-dir:`` has it,
            ``MODEL/PRETRAINED`` with names that open_clip knows, or ``hf-hub:ORG/NAME``.

    Returns:
        The source.

    Raises:
        ExportError: when it cannot be fetched or read, or a module is not supported.
    """
    import open_clip

    bare = name.removeprefix("local-dir:")
    if Path(bare).is_dir() or name.startswith("local-dir:"):
        return _from_folder(Path(bare), f"open_clip:{Path(bare).resolve()}", Path(bare).name)
    if name.startswith("hf-hub:"):
        hub = name.removeprefix("hf-hub:")
        return _from_folder(local_folder(hub), f"open_clip:{name}", hub)
    architecture, _, tag = name.partition("/")
    config = open_clip.get_model_config(architecture)
    if config is None:
        raise ExportError(f"{architecture!r} is no folder and no model that open_clip knows")
    known = open_clip.list_pretrained_tags_by_model(architecture)
    if tag not in known:
        raise ExportError(
            f"open_clip:{architecture} needs one of its pretrained weights, as "
            f"open_clip:{architecture}/{known[0] if known else 'TAG'}; "
            f"known: {', '.join(known) or 'none'}"
        )
    with hub_errors(f"open_clip {architecture}/{tag}"):
        model = open_clip.create_model(architecture, pretrained=tag)
        tokenizer = open_clip.get_tokenizer(architecture)
    return open_clip_source(
        cast("nn.Module", model),
        name=name,
        spec=f"open_clip:{name}",
        tokenizer=tokenizer,
    )


def open_clip_source(
    model: nn.Module,
    *,
    name: str,
    tokenizer: Any = None,
    spec: str = "",
    weights: Path | None = None,
    licence: str = "",
) -> BackboneSource:
    """Take an open_clip model apart.

    Args:
        model: changed: its fused attention is split.
        name: for people.
        tokenizer: of open_clip; CLIP's own when omitted.
        spec: what loads it again.
        weights: the file of its weights, for the record.
        licence: of the weights.

    Returns:
        The source.

    Raises:
        ExportError: naming a module that is not supported.
    """
    model = model.eval().requires_grad_(False).float()
    try:
        split_attention(model)
    except ValueError as error:
        raise ExportError(f"cannot split attention: {error}") from error
    text = clip_text(model).eval()
    fast = _tokenizer(tokenizer)
    limit = int(getattr(tokenizer, "context_length", None) or text.max_length)
    clip = cast("Any", model)
    record = weights_provenance("text and vision tower", spec or name, licence, weights)
    return BackboneSource(
        name=name,
        spec=spec,
        text=text,
        tokenizer=fast,
        max_tokens=min(limit, text.max_length),
        vision=_vision(clip.visual),
        provenance=(record,),
    )


def _from_folder(folder: Path, spec: str, name: str) -> BackboneSource:
    import open_clip

    path = folder / _CONFIG
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        raw["model_cfg"]["text_cfg"]
    except (OSError, ValueError, KeyError) as error:
        raise ExportError(f"{folder} is no open_clip folder: {path.name}: {error!r}") from error
    weights = sorted(folder.glob("open_clip_model.safetensors"))
    if not weights:
        raise ExportError(f"{folder} has no open_clip_model.safetensors; convert the weights first")
    try:
        model = open_clip.create_model(f"local-dir:{folder}")
        tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
    except (OSError, ValueError, RuntimeError, TypeError, KeyError) as error:
        raise ExportError(f"open_clip cannot load {folder}: {error}") from error
    return open_clip_source(
        cast("nn.Module", model),
        name=name,
        spec=spec,
        tokenizer=tokenizer,
        weights=weights[0],
        licence=str(raw.get("license", "")),
    )


def _tokenizer(tokenizer: Any) -> Tokenizer:
    if tokenizer is None or type(tokenizer).__name__ == "SimpleTokenizer":
        return clip_tokenizer()
    mode = str(getattr(tokenizer, "tokenizer_mode", None) or "")
    inner = getattr(tokenizer, "tokenizer", None)
    if inner is None or mode or getattr(tokenizer, "strip_sep_token", False):
        raise ExportError(
            f"tokenizer {type(tokenizer).__name__} of open_clip (mode {mode!r}) is not supported"
        )
    with tempfile.TemporaryDirectory() as scratch:
        inner.save_pretrained(scratch)
        fast = fast_tokenizer(Path(scratch))[0]
    clean = getattr(getattr(tokenizer, "clean_fn", None), "__name__", "")
    steps = _CLEANING.get(clean, [])
    if steps:
        own = [] if fast.normalizer is None else [fast.normalizer]
        fast.normalizer = normalizers.Sequence([*steps, *own])
    return fast


def _vision(visual: Any) -> VisionSource:
    config = getattr(visual, "preprocess_cfg", None) or {}
    size = config.get("size") or visual.image_size
    sides = (size, size) if isinstance(size, int) else tuple(size)
    mode = config.get("resize_mode", "shortest")
    resample = _RESAMPLE.get(config.get("interpolation", "bicubic"))
    if len(set(sides)) != 1 or mode not in ("shortest", "squash") or resample is None:
        raise ExportError(
            f"visual: pictures of {sides} pixels, resized by {mode!r} with "
            f"{config.get('interpolation')!r}, are not supported; squares resized by 'shortest' "
            "or 'squash', bicubic or bilinear, are"
        )
    return VisionSource(
        module=visual,
        path="visual",
        preprocessing=ImagePreprocessing(int(sides[0]), 1.0, resample, mode),
        mean=tuple(config.get("mean") or (0.48145466, 0.4578275, 0.40821073)),
        std=tuple(config.get("std") or (0.26862954, 0.26130258, 0.27577711)),
    )
