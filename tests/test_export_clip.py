"""open_clip models as model directories: both towers, adapters on both, experts trained on them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from backbone_kit import clip_config, encoder, save_clip, torch
from PIL import Image

from omniembed import OmniEmbed
from omniembed.errors import ExportError
from omniembed.experts.card import ExpertCard
from omniembed.experts.training.backbones.attention import SplitAttention
from omniembed.experts.training.backbones.clip_text import clip_text
from omniembed.experts.training.backbones.clip_tokenizer import clip_tokenizer
from omniembed.experts.training.backbones.load import load_source
from omniembed.experts.training.user import UserConfig
from omniembed.export import ExportConfig, export_model
from omniembed.types import Kind

TEXTS = ["a photo of a cat", "DON'T   stop", "x", "the quick brown fox jumps over the dog " * 5]


def pictures(folder: Path) -> list[Path]:
    random = np.random.default_rng(0)
    paths = []
    for at, shape in enumerate([(80, 120), (64, 64), (200, 90)]):
        paths.append(folder / f"{at}.png")
        Image.fromarray(random.integers(0, 255, (*shape, 3), np.uint8)).save(paths[-1])
    return paths


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("clip")
    spec = f"open_clip:{save_clip(home / 'own', clip_config())}"
    report = export_model(spec, home / "out")
    assert report.passed
    assert {(row.tower, row.precision) for row in report.rows} == {
        (tower, precision) for tower in ("text", "image") for precision in ("fp32", "int8")
    }
    assert all(len(row.adapters) == 2 for row in report.rows)
    return home / "out"


def test_the_tokenizer_gives_the_ids_of_open_clip() -> None:
    import open_clip

    own, theirs = clip_tokenizer(), open_clip.SimpleTokenizer()
    own.enable_truncation(77)
    odd = [
        "\u201ccurly\u201d it\u2019s",
        "\ufb01ne \uff21\uff22\uff23",
        "a &amp; b",
        "日本語",
        "😀 foo_bar!!",
        "1234 émigré",
        "\tx\n y",
    ]
    for text in [*TEXTS, *odd, "word " * 200]:
        ids = own.encode(text.strip()).ids
        expected = theirs([text])[0].tolist()
        assert expected[: len(ids)] == ids
        assert not any(expected[len(ids) :])


@pytest.mark.parametrize("clean", ["canonicalize", "lower", "whitespace"])
def test_other_tokenizers_clean_texts_as_open_clip_does(clean: str, tmp_path: Path) -> None:
    from backbone_kit import tokenizer
    from open_clip.tokenizer import HFTokenizer

    from omniembed.experts.training.backbones.open_clip import _tokenizer

    tokenizer("bert").save_pretrained(tmp_path)
    theirs = HFTokenizer(str(tmp_path), context_length=40, clean=clean)
    own = _tokenizer(theirs)
    own.enable_truncation(40)
    for text in [*TEXTS, "It's a_well-known [fact]: 3.5 % (+/- 2)!", "Tab\there\\now"]:
        ids = own.encode(text).ids
        expected = theirs([text])[0].tolist()
        assert expected[: len(ids)] == ids
        assert not any(expected[len(ids) :])


def test_the_runtime_gives_what_open_clip_gives(clip: Path, tmp_path: Path) -> None:
    import open_clip

    model, preprocess = open_clip.create_model_from_pretrained(f"local-dir:{clip.parent / 'own'}")
    paths = pictures(tmp_path)
    with torch.inference_mode():
        texts = model.encode_text(open_clip.get_tokenizer("ViT-B-32")(TEXTS), normalize=True)
        images = model.encode_image(
            torch.stack([preprocess(Image.open(path)) for path in paths]), normalize=True
        )
    omni = OmniEmbed(clip)
    assert (omni.embed_documents(TEXTS) * texts.numpy()).sum(axis=1).min() > 0.998
    assert (omni.embed_documents(paths) * images.numpy()).sum(axis=1).min() > 0.998


def test_an_adapter_of_peft_on_the_whole_model_serves_both_towers(
    clip: Path, tmp_path: Path
) -> None:
    from peft import LoraConfig, get_peft_model

    source = load_source(f"open_clip:{clip.parent / 'own'}")
    omni = OmniEmbed(clip)
    names = [target.name for target in omni.model.manifest.adaptable]
    assert any(name.startswith("visual.") and name.endswith("q_proj") for name in names)
    assert any(name.startswith("transformer.") and name.endswith("v_proj") for name in names)
    config = LoraConfig(r=4, lora_alpha=8, target_modules="|".join(names).replace(".", r"\."))
    torch.manual_seed(3)
    adapted = get_peft_model(source.text.model, config).eval()
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.normal_(0, 0.12)
    adapted.save_pretrained(tmp_path / "pack")
    card = ExpertCard(
        name="both",
        purpose="Moves both towers.",
        base=omni.fingerprint,
        kinds=(Kind.IMAGE,),
        strength=1.0,
    )
    card.write(tmp_path / "pack")
    omni.experts.add(tmp_path / "pack")
    paths = pictures(tmp_path)
    with torch.inference_mode():
        texts = torch.cat(
            [
                source.text.whole(torch.tensor([source.tokenizer.encode(one).ids]))
                for one in TEXTS[:3]
            ]
        ).numpy()
    base = omni.embed_queries(TEXTS[:3], expert="base")
    moved = omni.embed_queries(TEXTS[:3], expert="both")
    assert (base * texts).sum(axis=1).max() < 0.98
    assert (moved * texts).sum(axis=1).min() > 0.998
    from omniembed.models.images import load_rgb, to_pixels

    assert source.vision is not None
    pixels = [to_pixels(load_rgb(path), source.vision.preprocessing) for path in paths]
    mean, std = (
        torch.tensor(one)[:, None, None] for one in (source.vision.mean, source.vision.std)
    )
    batch = torch.stack([torch.tensor(one.copy()).permute(2, 0, 1) for one in pixels]) / 255
    with torch.inference_mode():
        seen = torch.nn.functional.normalize(source.vision.module((batch - mean) / std), dim=-1)
    plain = omni.embed_queries(paths, expert="auto")
    through = omni.embed_queries(paths, expert="both")
    assert (plain * seen.numpy()).sum(axis=1).max() < 0.98
    assert (through * seen.numpy()).sum(axis=1).min() > 0.998
    mixed = omni.embed_queries([paths[0], TEXTS[0], (paths[1], "x")], expert="both")
    assert np.allclose(mixed[0], through[0], atol=1e-6)
    assert np.allclose(mixed[1], moved[0], atol=1e-6)


def write_pairs(path: Path) -> Path:
    random = np.random.default_rng(0)
    words = [f"w{chr(97 + at)}{chr(110 + at % 10)}" for at in range(24)]
    lines = []
    for word in words:
        for _ in range(6):
            noise = " ".join(random.choice(words, 2))
            lines.append({"query": f"find {word} {noise}", "positive": f"{word} is kept here"})
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def test_the_recipe_trains_on_an_exported_clip(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pytrec_eval")
    monkeypatch.setenv("OMNIEMBED_HOME", str(tmp_path / "home"))
    omni = OmniEmbed(clip)
    report = omni.experts.train(
        "own",
        write_pairs(tmp_path / "pairs.jsonl"),
        out=tmp_path / "run",
        config=UserConfig.of(10),
        keep_anyway=True,
    )
    assert report.own.queries > 0
    tensors = (tmp_path / "run" / "adapter_config.json").read_text()
    assert "transformer.resblocks.1.attn.q_proj" in tensors
    assert "visual" not in tensors
    query = ["find wan wbo"]
    moved, base = omni.embed_queries(query, expert="own"), omni.embed_queries(query, expert="base")
    assert 0 < np.abs(moved - base).max() < 1


def test_splitting_attention_changes_nothing() -> None:
    torch.manual_seed(0)
    for options in ({}, {"kdim": 24, "vdim": 20}, {"bias": False}):
        fused = torch.nn.MultiheadAttention(32, 4, batch_first=True, **options).eval()
        width = (32, options.get("kdim", 32), options.get("vdim", 32))
        query, key, value = (torch.randn(2, 5, int(one)) for one in width)
        mask = torch.zeros(5, 5).masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf"))
        expected = fused(query, key, value, need_weights=False, attn_mask=mask)[0]
        assert torch.allclose(
            SplitAttention(fused)(query, key, value, attn_mask=mask)[0], expected, atol=1e-6
        )


@pytest.mark.parametrize(
    "options",
    [
        {"pool_type": "last", "no_causal_mask": True, "context_length": 20, "pad_id": 1},
        {"pool_type": "first", "no_causal_mask": True},
        {"pool_type": "argmax", "proj_bias": True},
    ],
)
def test_custom_text_towers_equal_their_whole(options: dict[str, object], tmp_path: Path) -> None:
    spec = f"open_clip:{save_clip(tmp_path / 'own', clip_config(**options), custom=True)}"
    source = load_source(spec)
    assert source.max_tokens == options.get("context_length", 77)
    source.tokenizer.enable_truncation(source.max_tokens)
    encodings = source.tokenizer.encode_batch(TEXTS)
    ids = torch.zeros(len(TEXTS), max(len(one.ids) for one in encodings), dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, one in enumerate(encodings):
        ids[row, : len(one.ids)] = torch.tensor(one.ids)
        mask[row, : len(one.ids)] = 1
    with torch.inference_mode():
        together = source.text(ids, mask)
        for row, one in enumerate(encodings):
            alone = source.text.whole(torch.tensor([one.ids]))[0]
            assert torch.allclose(together[row], alone, atol=1e-5)


def test_a_custom_text_tower_that_sees_its_padding_runs(tmp_path: Path) -> None:
    options = {"pool_type": "last", "no_causal_mask": True, "context_length": 20, "pad_id": 1}
    folder = save_clip(tmp_path / "own", clip_config(**options), custom=True, resize_mode="squash")
    report = export_model(
        f"open_clip:{folder}", tmp_path / "out", config=ExportConfig(precision="fp16", lora="mlp")
    )
    assert report.passed
    manifest = OmniEmbed(tmp_path / "out").model.manifest
    assert {one.name for one in manifest.lora} == {
        "text.transformer.resblocks.1.mlp.c_fc",
        "text.transformer.resblocks.1.mlp.c_proj",
    }
    assert manifest.image is not None
    assert manifest.image.resize == "squash"


def test_towers_of_transformers_inside_open_clip() -> None:
    from open_clip.hf_model import HFTextEncoder

    class Holder(torch.nn.Module):
        def __init__(self, text: torch.nn.Module) -> None:
            super().__init__()
            self.text = text

        def encode_text(self, ids: torch.Tensor) -> torch.Tensor:
            return self.text(ids)

    bert = encoder("bert")
    for pooler, projection in (("mean_pooler", "mlp"), ("cls_pooler", "linear")):
        text = HFTextEncoder(
            "", 24, config=bert.config, pooler_type=pooler, proj_type=projection, pretrained=False
        )
        holder = Holder(text.eval())
        backbone = clip_text(holder).eval()
        ids = torch.tensor([[2, 9, 14, 30, 3]])
        with torch.inference_mode():
            expected = torch.nn.functional.normalize(holder.encode_text(ids), dim=-1)
            assert torch.allclose(backbone(ids, torch.ones_like(ids)), expected, atol=1e-5)
        assert backbone.targets(1)[0].startswith("text.transformer.encoder.layer.1.")
        assert backbone.dim == 24


def test_what_cannot_be_exported_is_named(tmp_path: Path) -> None:
    coca = save_clip(tmp_path / "coca", clip_config(embed_cls=True), custom=True)
    with pytest.raises(ExportError, match=r"text\.cls_emb"):
        load_source(f"open_clip:{coca}")
    longest = save_clip(tmp_path / "longest", clip_config(), resize_mode="longest")
    with pytest.raises(ExportError, match=r"visual: .*'longest'"):
        load_source(f"open_clip:{longest}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ExportError, match=r"open_clip_config\.json"):
        load_source(f"open_clip:{tmp_path / 'empty'}")


def test_a_text_encoder_with_a_vision_tower_of_its_own(tmp_path: Path) -> None:
    from backbone_kit import save_encoder

    text = f"hf:{save_encoder(tmp_path / 'text', 'bert', dense=40)}"
    vision = f"open_clip:{save_clip(tmp_path / 'vision', clip_config())}"
    config = ExportConfig(precision="fp32")
    report = export_model(text, tmp_path / "out", vision=vision, config=config)
    assert report.passed
    omni = OmniEmbed(tmp_path / "out")
    assert omni.embed_documents(["a text", *pictures(tmp_path)]).shape == (4, 40)
    other = f"hf:{save_encoder(tmp_path / 'wide', 'bert')}"
    with pytest.raises(ExportError, match="48 dimensions and pictures 40"):
        export_model(other, tmp_path / "no", vision=vision, config=config)
