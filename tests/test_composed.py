"""Composed queries at run time, with an expert whose parts are known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from omniembed.embedder import Embedder
from omniembed.errors import PackError
from omniembed.experts import ExpertRegistry, load_pack
from omniembed.experts.composed import ComposedParts
from omniembed.models.model import Model
from omniembed.sample import sample_directory

FEATURES, WORDS, HIDDEN = 1744, 2, 8
CAT = sample_directory() / "images" / "cat.webp"
COFFEE = sample_directory() / "images" / "coffee.webp"


def parts(dim: int, share: float) -> ComposedParts:
    """Random pseudo-words, no correction, and a share of the picture that no query changes."""
    random = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) * 0.05).astype(np.float32)

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.float32)

    direction = draw(dim)
    return ComposedParts(
        norm_weight=np.ones(FEATURES, np.float32),
        norm_bias=zeros(FEATURES),
        words_inner=draw(HIDDEN, FEATURES + dim),
        words_inner_bias=zeros(HIDDEN),
        words_outer=draw(WORDS * dim, HIDDEN),
        words_outer_bias=zeros(WORDS * dim),
        correction_inner=zeros(4, 2 * dim),
        correction_inner_bias=zeros(4),
        correction_outer=zeros(dim, 4),
        correction_outer_bias=zeros(dim),
        share=zeros(1, dim),
        share_bias=np.array([np.log(share / (1 - share))], np.float32),
        away=np.zeros((), np.float32),
        direction=direction / np.linalg.norm(direction),
    )


def write_pack(folder: Path, model: Model, share: float) -> Path:
    folder.mkdir()
    manifest = model.manifest
    card = {
        "format": 1,
        "name": "mix",
        "purpose": "test",
        "base": manifest.fingerprint,
        "kinds": ["image"],
    }
    (folder / "card.json").write_text(json.dumps(card))
    config = {"peft_type": "LORA", "r": 1, "lora_alpha": 1}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    target = manifest.lora[0]
    key = f"base_model.model.{target.name}"
    adapter = {
        f"{key}.lora_A.weight": np.zeros((1, target.d_in), np.float32),
        f"{key}.lora_B.weight": np.zeros((target.d_out, 1), np.float32),
    }
    save_file(adapter, folder / "adapter_model.safetensors")
    save_file(parts(manifest.dim, share).tensors(), folder / "composed.safetensors")
    return folder


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.load("mini")


def embedder(model: Model, *packs: Path) -> Embedder:
    experts = ExpertRegistry(model.manifest)
    for pack in packs:
        experts.add(pack)
    return Embedder(model, experts)


def test_a_picture_with_a_text_goes_to_the_composed_expert(model: Model, tmp_path: Path) -> None:
    own = embedder(model, write_pack(tmp_path / "mix", model, 0.5))
    queries = ["a cat", (CAT, "asleep"), CAT, (COFFEE, "asleep"), (CAT, "running")]
    encoded = own.embed_queries(queries)
    assert [route.expert for route in encoded.routes] == ["base", "mix", "base", "mix", "mix"]
    assert np.allclose(np.linalg.norm(encoded.vectors, axis=1), 1, atol=1e-5)
    # Both the picture and the words matter, and the batch does not.
    assert np.abs(encoded.vectors[1] - encoded.vectors[3]).max() > 0.01
    assert np.abs(encoded.vectors[1] - encoded.vectors[4]).max() > 0.01
    alone = own.embed_queries([queries[3]])
    assert np.allclose(alone.vectors[0], encoded.vectors[3], atol=1e-6)
    # The expert's parts are used: without it the query is another vector.
    without = embedder(model).embed_queries([queries[1]])
    assert without.routes[0].expert == "base"
    assert without.vectors[0] @ encoded.vectors[1] < 0.999


def test_the_share_decides_how_much_of_the_picture_stays(model: Model, tmp_path: Path) -> None:
    near = embedder(model, write_pack(tmp_path / "near", model, 0.99))
    far = embedder(model, write_pack(tmp_path / "far", model, 0.01))
    picture = near.embed_queries([CAT]).vectors[0]
    kept = near.embed_queries([(CAT, "asleep")]).vectors[0] @ picture
    left = far.embed_queries([(CAT, "asleep")]).vectors[0] @ picture
    assert kept > left + 0.1


def test_a_forced_expert_without_parts_and_the_base_add_both_vectors(model: Model) -> None:
    base = embedder(model)
    both, text, picture = base.embed_queries(
        [(CAT, "asleep"), "asleep", CAT], expert="base"
    ).vectors
    total = text + picture
    assert np.allclose(both, total / np.linalg.norm(total), atol=1e-6)


@pytest.mark.parametrize(
    "name", ["direction", "residual.away", "pseudo_words.inner.weight", "correction.outer.weight"]
)
@pytest.mark.parametrize("fault", ["missing", "shape", "nan"])
def test_broken_parts_are_refused(model: Model, tmp_path: Path, name: str, fault: str) -> None:
    pack = write_pack(tmp_path / "mix", model, 0.5)
    tensors = load_file(pack / "composed.safetensors")
    if fault == "missing":
        del tensors[name]
    elif fault == "shape":
        tensors[name] = np.zeros((3, 5), np.float32)
    else:
        tensors[name] = np.full_like(tensors[name], np.nan)
    save_file(tensors, pack / "composed.safetensors")
    with pytest.raises(PackError, match=r"composed|shape"):
        load_pack(pack, model.manifest)
