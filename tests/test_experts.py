"""Expert packs: what a good one does, and that a bad one changes nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from omniembed import Embedder, OmniEmbed
from omniembed.errors import PackError, UnknownExpertError
from omniembed.experts import ExpertCard, ExpertRegistry
from omniembed.models.model import Model
from omniembed.types import Kind

QUERY = "how do I sort a list?"


def write_pack(
    folder: Path, name: str = "legal", *, rank: int = 4, layers: int = 18, seed: int = 0
) -> Path:
    """Write a valid pack with random weights."""
    manifest = Model.load("mini").manifest
    folder.mkdir(parents=True, exist_ok=True)
    card = ExpertCard(name=name, purpose="a test", base=manifest.fingerprint, kinds=(Kind.TEXT,))
    card.write(folder)
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    rng = np.random.default_rng(seed)
    tensors = {}
    for target in manifest.lora[:layers]:
        prefix = f"base_model.model.{target.name}"
        a = rng.normal(0, 0.05, (rank, target.d_in)).astype(np.float32)
        b = rng.normal(0, 0.05, (target.d_out, rank)).astype(np.float32)
        tensors[f"{prefix}.lora_A.weight"], tensors[f"{prefix}.lora_B.weight"] = a, b
    save_file(tensors, folder / "adapter_model.safetensors")
    save_file({"pilots": np.eye(3, 384, dtype=np.float32)}, folder / "pilots.safetensors")
    return folder


@pytest.fixture
def registry(model: Model) -> ExpertRegistry:
    return ExpertRegistry(model.manifest)


def edit_card(folder: Path, **changes: object) -> None:
    path = folder / "card.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_config(folder: Path, **changes: object) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_weights(folder: Path, change: Callable[[str, np.ndarray], np.ndarray]) -> None:
    path = folder / "adapter_model.safetensors"
    save_file({key: change(key, value) for key, value in load_file(path).items()}, path)


def rename_weights(folder: Path, old: str, new: str) -> None:
    path = folder / "adapter_model.safetensors"
    save_file({key.replace(old, new): value for key, value in load_file(path).items()}, path)


def with_nan(key: str, value: np.ndarray) -> np.ndarray:
    value = value.copy()
    value.flat[0] = np.nan
    return value


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no card": (lambda p: (p / "card.json").unlink(), "not an expert pack"),
    "card is no JSON": (lambda p: (p / "card.json").write_text("{"), "malformed"),
    "card is a list": (lambda p: (p / "card.json").write_text("[]"), "malformed"),
    "card of a later format": (lambda p: edit_card(p, format=99), "format 99"),
    "another base": (lambda p: edit_card(p, base="0" * 16), "trained for base 0000"),
    "reserved name": (lambda p: edit_card(p, name="auto"), "reserved"),
    "name with a path": (lambda p: edit_card(p, name="../x"), "lower-case"),
    "unknown kind": (lambda p: edit_card(p, kinds=["video"]), "video"),
    "absurd strength": (lambda p: edit_card(p, strength=1e9), "strength"),
    "unknown field": (lambda p: edit_card(p, surprise=1), "surprise"),
    "no config": (lambda p: (p / "adapter_config.json").unlink(), "cannot read"),
    "another method": (lambda p: edit_config(p, peft_type="IA3"), "IA3"),
    "DoRA": (lambda p: edit_config(p, use_dora=True), "use_dora"),
    "no alpha": (lambda p: edit_config(p, lora_alpha=None), "lora_alpha"),
    "infinite alpha": (lambda p: edit_config(p, lora_alpha=float("inf")), "finite"),
    "no weights": (lambda p: (p / "adapter_model.safetensors").unlink(), "cannot read"),
    "weights are junk": (
        lambda p: (p / "adapter_model.safetensors").write_bytes(b"\x00" * 64),
        "not a readable",
    ),
    "weights are a pickle": (
        lambda p: (p / "adapter_model.safetensors").write_bytes(b"\x80\x04N."),
        "not a readable",
    ),
    "NaN": (lambda p: edit_weights(p, with_nan), "NaN"),
    "integers": (lambda p: edit_weights(p, lambda k, v: v.astype(np.int32)), "int32"),
    "wrong width": (lambda p: edit_weights(p, lambda k, v: v[:, :3].copy()), "do not fit|rank"),
    "half a layer": (lambda p: rename_weights(p, "3.output.dense.lora_A", "x"), "naming"),
    "frozen layer": (lambda p: rename_weights(p, "layer.3.", "layer.0."), "keeps frozen"),
    "pilots of another width": (
        lambda p: save_file({"pilots": np.ones((2, 5), np.float32)}, p / "pilots.safetensors"),
        r"\(2, 5\)",
    ),
    "a zero pilot": (
        lambda p: save_file({"pilots": np.zeros((2, 384), np.float32)}, p / "pilots.safetensors"),
        "zero",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_pack_changes_nothing(
    fault: str, registry: ExpertRegistry, tmp_path: Path
) -> None:
    registry.add(write_pack(tmp_path / "good", "good"))
    before = registry.state
    bad = write_pack(tmp_path / "bad", "bad")
    breakage, message = BROKEN[fault]
    breakage(bad)
    with pytest.raises(PackError, match=message):
        registry.add(bad)
    assert registry.state is before


def test_a_pack_changes_queries_and_no_document(
    model: Model, registry: ExpertRegistry, tmp_path: Path
) -> None:
    embedder = Embedder(model, registry)
    base = embedder.embed_queries([QUERY], expert="base").vectors
    document = embedder.embed_documents([QUERY])
    registry.add(write_pack(tmp_path / "legal"))
    served = embedder.embed_queries([QUERY], expert="legal")
    assert served.routes[0].expert == "legal"
    assert float((served.vectors * base).sum()) < 0.99
    assert np.array_equal(embedder.embed_documents([QUERY]), document)
    assert np.array_equal(embedder.embed_queries([QUERY], expert="base").vectors, base)
    registry.remove("legal")
    with pytest.raises(UnknownExpertError, match="legal"):
        embedder.embed_queries([QUERY], expert="legal")


def test_packs_of_any_rank_and_layers_share_a_bank(
    model: Model, registry: ExpertRegistry, tmp_path: Path
) -> None:
    """Each expert's vector is the same alone and among others, up to rounding of padded ranks."""
    alone = {}
    for name, rank, layers in [("one", 2, 18), ("two", 16, 6), ("three", 7, 1)]:
        folder = write_pack(tmp_path / name, name, rank=rank, layers=layers, seed=rank)
        single = ExpertRegistry(model.manifest)
        single.add(folder)
        alone[name] = Embedder(model, single).embed_queries([QUERY], expert=name).vectors
        registry.add(folder)
    for name, vectors in alone.items():
        together = Embedder(model, registry).embed_queries([QUERY], expert=name).vectors
        assert np.allclose(together, vectors, atol=1e-5)


def test_names_are_unique(registry: ExpertRegistry, tmp_path: Path) -> None:
    registry.add(write_pack(tmp_path / "first"))
    with pytest.raises(PackError, match="loaded already"):
        registry.add(write_pack(tmp_path / "second"))
    assert [card.name for card in registry.list()] == ["legal"]


def test_removing_an_unknown_expert_names_the_known(
    registry: ExpertRegistry, tmp_path: Path
) -> None:
    registry.add(write_pack(tmp_path / "legal"))
    with pytest.raises(UnknownExpertError, match=r"'code'.*legal"):
        registry.remove("code")


def test_the_files_may_go_once_loaded(omni: OmniEmbed, tmp_path: Path) -> None:
    folder = write_pack(tmp_path / "legal")
    omni.experts.add(folder)
    shutil.rmtree(folder)
    assert omni.embed_queries([QUERY], expert="legal").shape == (1, 384)
    omni.experts.remove("legal")


def test_card_round_trip(registry: ExpertRegistry, tmp_path: Path) -> None:
    card = registry.add(write_pack(tmp_path / "legal"))
    assert card.kinds == (Kind.TEXT,)
    assert registry.list() == [card]


@pytest.mark.parametrize("path", ["nowhere", __file__])
def test_a_pack_is_a_folder(path: str, registry: ExpertRegistry) -> None:
    with pytest.raises(PackError, match="not a directory"):
        registry.add(path)
