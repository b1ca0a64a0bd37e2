"""What the torch towers make of the parity inputs, with and without PEFT adapters."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from torch import nn
from torch.nn.functional import normalize

from ..errors import ExportError
from ..experts.training.backbones.base import pool
from ..experts.training.backbones.source import BackboneSource
from ..models.arrays import Floats
from ..models.images import load_rgb, to_pixels
from ..models.manifest import LoraTarget
from .locate import naming_modules
from .reference import ADAPTERS, ALPHA, Reference, adapter
from .vision import Pictures

_PICTURES = (".png", ".jpg", ".jpeg", ".webp")
_MOST = 16


def compute_reference(
    source: BackboneSource,
    pictures: Pictures | None,
    *,
    gate_layer: int,
    text_targets: Sequence[LoraTarget],
    image_targets: Sequence[LoraTarget],
    inputs: Path | None,
) -> Reference:
    """Run both towers in torch.

    Args:
        source: the backbone.
        pictures: its vision tower, if there is one.
        gate_layer: number of text layers below the gate.
        text_targets: LoRA layers of the text tower.
        image_targets: LoRA layers of the vision tower.
        inputs: a folder of .txt files (a text a line) and pictures; built-in ones when omitted.

    Returns:
        The reference.

    Raises:
        ExportError: naming a module that fails or gives values that are not finite.
    """
    texts, images = _inputs(inputs)
    spread = {
        **_spread(source.text.model, text_targets),
        **(_spread(pictures, image_targets) if pictures is not None else {}),
    }
    with torch.inference_mode():
        with naming_modules(source.text, "text tower", finite=True):
            vectors, states = _texts(source, texts, gate_layer)
        adapted = []
        for number in range(len(ADAPTERS)):
            with _peft(source.text.model, number, text_targets, spread):
                adapted.append(_texts(source, texts, gate_layer)[0])
    reference = Reference(
        texts=texts,
        vectors=vectors,
        states=states,
        adapted=tuple(adapted),
        pixels=np.zeros((0, 1, 1, 3), np.uint8),
        pictures=np.zeros((0, vectors.shape[1]), np.float32),
        adapted_pictures=(),
        spread=spread,
    )
    if pictures is None or source.vision is None:
        return reference
    preprocessing = source.vision.preprocessing
    pixels = np.stack([to_pixels(load_rgb(path), preprocessing) for path in images])
    seen = _see(pictures, pixels, image_targets, spread)
    return Reference(**{**vars(reference), **seen})


def _see(
    pictures: Pictures,
    pixels: NDArray[np.uint8],
    targets: Sequence[LoraTarget],
    spread: dict[str, float],
) -> dict[str, Any]:
    def run() -> Floats:
        parts = [
            pictures(torch.from_numpy(pixels[at : at + 4]))[0] for at in range(0, len(pixels), 4)
        ]
        return np.asarray(torch.cat(parts).numpy(), np.float32)

    adapted = []
    with torch.inference_mode():
        with naming_modules(pictures, "vision tower", finite=True):
            vectors = run()
        for number in range(len(ADAPTERS)) if targets else ():
            with _peft(pictures, number, targets, spread):
                adapted.append(run())
    return {"pixels": pixels, "pictures": vectors, "adapted_pictures": tuple(adapted)}


def _texts(source: BackboneSource, texts: Sequence[str], gate_layer: int) -> tuple[Floats, Floats]:
    """Encode texts one by one, by the model's own forward pass."""
    text, vectors, states = source.text, [], []
    source.tokenizer.enable_truncation(source.max_tokens)
    for one in texts:
        ids = torch.tensor([source.tokenizer.encode(one).ids])
        hidden, mask = text.begin(text.words(ids), torch.ones(ids.shape))
        hidden = text.run(hidden, mask, 0, gate_layer)
        states.append(normalize(pool(hidden, mask, "mean")[:, 0], dim=-1)[0].numpy())
        vectors.append(text.whole(ids)[0].numpy())
    return np.stack(vectors), np.stack(states)


@contextmanager
def _peft(
    model: nn.Module, number: int, targets: Sequence[LoraTarget], spread: dict[str, float]
) -> Iterator[None]:
    """Put a random adapter on a model, by PEFT."""
    rank = ADAPTERS[number]
    names = "|".join(re.escape(target.name) for target in targets)
    config = LoraConfig(r=rank, lora_alpha=ALPHA, target_modules=f"(?:{names})", bias="none")
    with warnings.catch_warnings(), torch.inference_mode(mode=False):
        warnings.simplefilter("ignore")
        adapted = get_peft_model(cast("Any", model), config)
    down, up = adapter(number, targets, spread)
    state = {}
    for target in targets:
        stem = f"base_model.model.{target.name}"
        state[f"{stem}.lora_A.weight"] = torch.from_numpy(down[target.name])
        state[f"{stem}.lora_B.weight"] = torch.from_numpy(up[target.name])
    if state.keys() != get_peft_model_state_dict(adapted).keys():
        raise ExportError("PEFT puts adapters on other layers than those that were asked for")
    set_peft_model_state_dict(adapted, state)
    adapted.eval()
    try:
        yield
    finally:
        adapted.unload()


def _spread(model: nn.Module, targets: Sequence[LoraTarget]) -> dict[str, float]:
    layers = {one.name: cast("nn.Linear", model.get_submodule(one.name)) for one in targets}
    return {name: float(layer.weight.std()) for name, layer in layers.items()}


def _inputs(folder: Path | None) -> tuple[tuple[str, ...], list[Path]]:
    if folder is None:
        text = (files("omniembed.export") / "parity_texts.txt").read_text(encoding="utf-8")
        images = Path(str(files("omniembed"))) / "data" / "sample" / "images"
    else:
        if not folder.is_dir():
            raise ExportError(f"no folder {str(folder)!r} of parity inputs")
        text = "\n".join(one.read_text(encoding="utf-8") for one in sorted(folder.glob("*.txt")))
        images = folder
    texts = tuple(line for line in text.splitlines() if line.strip())
    pictures = [path for path in sorted(images.iterdir()) if path.suffix.lower() in _PICTURES]
    if len(texts) < 2 or not pictures:
        raise ExportError(
            f"{folder} has {len(texts)} texts and {len(pictures)} pictures to check parity with; "
            "give at least 2 lines in .txt files and one picture"
        )
    return texts, pictures[:_MOST]
