"""Text encoders of ``transformers`` as model directories, end to end."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from backbone_kit import encoder, save_encoder, tokenizer, torch, write_json
from typer.testing import CliRunner

from omniembed import OmniEmbed
from omniembed.cli import app
from omniembed.errors import ExportError
from omniembed.experts.training.backbones.encoders import FAMILIES
from omniembed.experts.training.backbones.load import load_source
from omniembed.export import ExportConfig, export_model, verify_model
from omniembed.export.parity import THRESHOLDS, Thresholds

TEXTS = ["a red bicycle", "x", "def mean(values): return sum(values) / len(values) " * 2]


def originals(folder: Path, kind: str, pooling: str) -> np.ndarray:
    """What transformers itself gives, in one padded batch."""
    own, model = (
        tokenizer("bert" if kind in ("bert", "nomic_bert", "modernbert") else "x"),
        encoder(kind),
    )
    batch = own(TEXTS, padding=True, truncation=True, max_length=100, return_tensors="pt")
    with torch.inference_mode():
        states = model(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
        ).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1).float()
    if pooling == "cls":
        pooled = states[:, 0]
    elif pooling == "lasttoken":
        pooled = states[torch.arange(len(TEXTS)), batch["attention_mask"].sum(dim=1) - 1]
    else:
        pooled = (states * mask).sum(dim=1) / mask.sum(dim=1)
    return torch.nn.functional.normalize(pooled, dim=-1).numpy()


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [
        ("bert", "mean"),
        ("bert", "lasttoken"),
        ("xlm-roberta", "cls"),
        ("mpnet", "mean"),
        ("modernbert", "cls"),
        ("nomic_bert", "mean"),
    ],
)
def test_a_backbone_taken_apart_equals_the_whole(kind: str, pooling: str, tmp_path: Path) -> None:
    assert kind in FAMILIES
    source = load_source(f"hf:{save_encoder(tmp_path / 'own', kind, pooling=pooling)}")
    source.tokenizer.enable_truncation(source.max_tokens)
    encodings = source.tokenizer.encode_batch(TEXTS)
    longest = max(len(one.ids) for one in encodings)
    assert longest > 60  # more than ModernBERT's window
    ids = torch.zeros(len(TEXTS), longest, dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, one in enumerate(encodings):
        ids[row, : len(one.ids)] = torch.tensor(one.ids)
        mask[row, : len(one.ids)] = 1
    expected = originals(tmp_path / "own", kind, pooling)
    with torch.inference_mode():
        assert np.allclose(source.text(ids, mask).numpy(), expected, atol=2e-5)
        for row, one in enumerate(encodings):
            alone = source.text.whole(torch.tensor([one.ids]))[0].numpy()
            assert np.allclose(alone, expected[row], atol=2e-5)


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [("xlm-roberta", "cls"), ("mpnet", "mean"), ("modernbert", "lasttoken")],
)
def test_every_family_runs_in_the_runtime(kind: str, pooling: str, tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "own", kind, pooling=pooling)
    report = export_model(f"hf:{folder}", tmp_path / "out", config=ExportConfig(precision="fp32"))
    assert report.passed
    omni = OmniEmbed(tmp_path / "out")
    vectors = omni.embed_documents(TEXTS)
    assert (vectors * originals(folder, kind, pooling)).sum(axis=1).min() > 0.99999


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT with a dense layer after pooling, exported by the command."""
    home = tmp_path_factory.mktemp("bert")
    folder = save_encoder(home / "own", "bert", dense=32)
    arguments = ["export", "model", f"hf:{folder}", str(home / "out"), "--compare"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    for precision in ("fp32", "fp16", "int8", "block8", "block4"):
        assert precision in result.stdout
    return home / "out"


def test_the_directory_says_what_it_holds(bert: Path) -> None:
    omni = OmniEmbed(bert)
    manifest = omni.model.manifest
    assert (manifest.dim, manifest.gate_dim, manifest.word_dim) == (32, 48, 48)
    assert manifest.gate_layer == 1
    assert [one.name for one in manifest.lora][:2] == [
        "encoder.layer.1.attention.self.query",
        "encoder.layer.1.attention.self.key",
    ]
    assert manifest.max_tokens == 100
    assert manifest.source == f"hf:{(bert.parent / 'own').resolve()}"
    assert omni.embed_queries(["anything"]).shape == (1, 32)
    assert omni.route("anything").abstained


def test_verify_repeats_the_measurement(bert: Path) -> None:
    report = verify_model(bert)
    assert report.passed
    (row,) = report.rows
    assert row.precision == "int8"
    assert row.batch_difference == 0.0
    assert row.adapter_effect < 0.95
    assert 0.99 < row.cosine_min < 1.0
    assert report.operators["text.onnx"]["com.microsoft.MatMulIntegerToFloat"] > 10
    assert CliRunner().invoke(app, ["export", "verify", str(bert), "--json"]).exit_code == 0


def test_the_recipe_trains_on_an_exported_encoder(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pytrec_eval")
    monkeypatch.setenv("OMNIEMBED_HOME", str(tmp_path / "home"))
    pairs = tmp_path / "pairs.jsonl"
    things = [f"{chr(97 + at)}{chr(122 - at)}" * 2 for at in range(24)]
    records = [
        {"query": f"find {one} number {at}", "positive": f"{one} lies in drawer {row}"}
        for row, one in enumerate(things)
        for at in range(20)
    ]
    pairs.write_text("".join(json.dumps(one) + "\n" for one in records))
    command = ["experts", "train", "own", "--pairs", str(pairs), "--model", str(bert)]
    options = ["--steps", "40", "--out", str(tmp_path / "run"), "--keep-anyway", "--json"]
    result = CliRunner().invoke(app, [*command, *options])
    assert result.exit_code == 0, result.output
    config = json.loads((tmp_path / "run" / "adapter_config.json").read_text())
    manifest = OmniEmbed(bert).model.manifest
    assert set(config["target_modules"]) == {target.name for target in manifest.lora}
    omni = OmniEmbed(bert)
    assert [card.name for card in omni.experts.list()] == ["own"]
    history = json.loads((tmp_path / "run" / "run" / "history.json").read_text())
    losses = [look["loss"] for look in history if look["step"] > 0]
    assert losses[-1] < losses[0]
    assert omni.embed_queries(["find azaz"], expert="own").shape == (1, 32)


def test_training_refuses_weights_that_changed_since(bert: Path, tmp_path: Path) -> None:
    from omniembed.errors import ModelError
    from omniembed.experts.training.tower import load_tower

    folder = save_encoder(tmp_path / "own", "bert", dense=32)
    changed = encoder("bert")
    changed.encoder.layer[0].output.dense.bias.data += 1
    changed.save_pretrained(folder)
    manifest = replace(OmniEmbed(bert).model.manifest, source=f"hf:{folder}")
    with pytest.raises(ModelError, match="changed since"):
        load_tower(manifest)


def test_verify_finds_weights_that_changed(bert: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(bert, copy)
    data = bytearray((copy / "text.onnx.data").read_bytes())
    data[100] ^= 0xFF
    (copy / "text.onnx.data").write_bytes(bytes(data))
    result = CliRunner().invoke(app, ["export", "verify", str(copy)])
    assert result.exit_code == 1
    assert "text.onnx.data is damaged" in result.output
    (copy / "parity.safetensors").unlink()
    shutil.copyfile(bert / "text.onnx.data", copy / "text.onnx.data")
    with pytest.raises(ExportError, match=r"parity\.safetensors"):
        verify_model(copy)


def test_below_the_thresholds_nothing_is_left(tmp_path: Path) -> None:
    source = f"hf:{save_encoder(tmp_path / 'own', 'bert')}"
    strict = {**THRESHOLDS, "block4": Thresholds(0.99999, 0.99999)}
    config = ExportConfig(precision="block4")
    with pytest.raises(ExportError, match="text tower, block4: cosine to torch"):
        export_model(source, tmp_path / "out", config=config, thresholds=strict)
    assert [path.name for path in tmp_path.iterdir()] == ["own"]
    forced = ExportConfig(precision="block4", force=True)
    report = export_model(source, tmp_path / "out", config=forced, thresholds=strict)
    assert not report.passed
    assert not verify_model(tmp_path / "out", thresholds=strict).passed
    with pytest.raises(ExportError, match="holds a model already"):
        export_model(source, tmp_path / "out")


def test_broken_weights_are_named_by_their_module(tmp_path: Path) -> None:
    model = encoder("bert")
    model.encoder.layer[1].intermediate.dense.weight.data[3, 4] = float("nan")
    folder = save_encoder(tmp_path / "own", "bert")
    model.save_pretrained(folder)
    with pytest.raises(ExportError, match=r"encoder\.layer\.1\.intermediate\.dense \(Linear\)"):
        export_model(f"hf:{folder}", tmp_path / "out")


def test_modules_that_are_not_supported_are_named(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "own", "bert")
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode": ["mean", "max"]})
    with pytest.raises(ExportError, match=r"'1_Pooling' \(Pooling\) uses mean \+ max"):
        load_source(f"hf:{folder}")
    listing = [
        {"idx": 0, "name": "0", "path": "2_LSTM", "type": "sentence_transformers.models.LSTM"}
    ]
    write_json(folder / "modules.json", listing)
    with pytest.raises(ExportError, match=r"'2_LSTM'.*\(LSTM\) is not supported"):
        load_source(f"hf:{folder}")
    import transformers

    other = transformers.DebertaV2Config(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
    )
    transformers.DebertaV2Model(other).save_pretrained(tmp_path / "deberta")
    with pytest.raises(ExportError, match=r"DebertaV2Model .* is not supported"):
        load_source(f"hf:{tmp_path / 'deberta'}")


def test_a_module_that_cannot_be_traced_is_named(tmp_path: Path) -> None:
    from omniembed.export.model import export_source

    class Branching(torch.nn.Module):
        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            return hidden * 2 if bool(hidden.sum() > 0) else hidden

    source = load_source(f"hf:{save_encoder(tmp_path / 'own', 'bert')}")
    source.text.encoder.encoder.layer[1].intermediate.intermediate_act_fn = Branching()
    with pytest.raises(ExportError, match=r"layer\.1\.intermediate\.intermediate_act_fn"):
        export_source(source, tmp_path / "out")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("bert", "is no backbone"),
        ("hf:./nowhere", "no folder"),
        ("open_clip:No-Such-Model/x", "no model that open_clip knows"),
        ("open_clip:ViT-B-32", "needs one of its pretrained weights.*laion2b"),
    ],
)
def test_a_wrong_spec_says_what_is_right(spec: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=message):
        export_model(spec, tmp_path / "out")


def test_a_hub_that_cannot_be_reached_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    for spec in ("hf:someone/something", "open_clip:hf-hub:someone/something"):
        with pytest.raises(ExportError, match="HF_HUB_OFFLINE is set"):
            export_model(spec, tmp_path / "out")
