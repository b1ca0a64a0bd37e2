"""Writing bundles, and reading broken ones."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from omniembed import OmniEmbed
from omniembed.cli import app
from omniembed.errors import ExportError, MissingExtraError, UnknownExpertError
from omniembed.export.edge import Precision, Target, export_edge, runtime
from omniembed.export.edge.bundle import choose
from omniembed.export.edge.portable import make_portable
from omniembed.export.edge.runtime.files import read_tensors
from omniembed.export.edge.runtime.images import load_rgb as edge_load
from omniembed.export.edge.runtime.images import to_pixels as edge_pixels
from omniembed.export.edge.steering import write_steering
from omniembed.models.images import load_rgb, to_pixels
from omniembed.models.model import Model
from omniembed.router import assemble, read_settings

Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def whole(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with an index of two documents."""
    folder = tmp_path_factory.mktemp("whole")
    omni = OmniEmbed(model, folder / "store.lance")
    omni.index([{"id": "a", "text": "tides and the moon"}, {"id": "b", "text": "bread and flour"}])
    export_edge(omni.embedder, folder / "bundle", experts=("code",), images=False, store=omni.store)
    return folder / "bundle"


@pytest.fixture
def bundle(whole: Path, tmp_path: Path) -> Path:
    """A copy to break; files are linked until a test writes another in their place."""
    out = tmp_path / "bundle"
    shutil.copytree(whole, out, copy_function=os.link)
    return out


def put(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def edit(bundle: Path, **changes: object) -> None:
    content = json.loads((bundle / "bundle.json").read_text())
    put(bundle / "bundle.json", json.dumps(content | changes).encode())


def same_size(bundle: Path, name: str) -> None:
    put(bundle / name, b"\x07" * (bundle / name).stat().st_size)


def header(bundle: Path, change: Callable[[dict[str, dict[str, object]]], object]) -> None:
    """Change the header of steering.safetensors within its length."""
    file = bundle / "steering.safetensors"
    data = file.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    content = json.loads(data[8:start])
    change(content)
    text = json.dumps(content, separators=(",", ":")).encode()
    put(file, len(text).to_bytes(8, "little") + text + data[start:])
    edit(bundle, files={})


def vectors_as(array: object) -> Change:
    def change(bundle: Path) -> None:
        stream = io.BytesIO()
        np.save(stream, np.asarray(array), allow_pickle=True)
        put(bundle / "index" / "vectors.npy", stream.getvalue())

    return change


def first(tensors: dict[str, dict[str, object]]) -> dict[str, object]:
    return next(entry for name, entry in tensors.items() if name != "__metadata__")


BROKEN: dict[str, tuple[Change, str]] = {
    "no description": (lambda b: (b / "bundle.json").unlink(), "no bundle"),
    "no JSON": (lambda b: put(b / "bundle.json", b"{"), "no bundle"),
    "no text": (lambda b: put(b / "bundle.json", b"\xff\xfe"), "no bundle"),
    "a deep nest": (lambda b: put(b / "bundle.json", b"[" * 100_000), "no bundle"),
    "a list": (lambda b: put(b / "bundle.json", b"[]"), "format None"),
    "another format": (lambda b: edit(b, format=2), "format 2, not 1"),
    "fields missing": (lambda b: edit(b, experts=None, dim="x"), "lacks experts, dim"),
    "a file missing": (lambda b: (b / "text.onnx").unlink(), "text.onnx should have"),
    "weights cut short": (
        lambda b: put(b / "text.onnx.data", (b / "text.onnx.data").read_bytes()[:-9]),
        "copy the bundle again",
    ),
    "a graph of garbage": (lambda b: same_size(b, "text.onnx"), "text.onnx"),
    "a tokenizer of garbage": (lambda b: same_size(b, "tokenizer.json"), "tokenizer.json"),
    "steering of garbage": (lambda b: same_size(b, "steering.safetensors"), "steering"),
    "a tensor missing": (lambda b: header(b, lambda t: t.pop("gate_center")), "lacks gate_center"),
    "a tensor outside": (
        lambda b: header(b, lambda t: first(t).update(data_offsets=[0, 10**12])),
        "outside the file",
    ),
    "a tensor of another shape": (
        lambda b: header(b, lambda t: first(t).update(shape=[3, 5])),
        "steering",
    ),
    "a tensor of another type": (
        lambda b: header(b, lambda t: first(t).update(dtype="F8")),
        "steering",
    ),
    "no index": (lambda b: shutil.rmtree(b / "index"), "with --store"),
    "vectors of objects": (vectors_as([{"a": 1}, None]), "index"),
    "vectors of doubles": (vectors_as(np.zeros((2, 384))), "float64"),
    "vectors of another number": (vectors_as(np.zeros((3, 384), np.float32)), "2 documents"),
    "vectors of another length": (vectors_as(np.zeros((2, 5), np.float32)), "does not go with"),
    "documents of no JSON": (lambda b: put(b / "index/documents.jsonl", b"{\n"), "broken"),
    "documents that are none": (lambda b: put(b / "index/documents.jsonl", b"1\n2\n"), "kind"),
}


@pytest.mark.parametrize(("change", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_bundle_is_refused(bundle: Path, change: Change, message: str) -> None:
    assert len(runtime.load(bundle).search("moon")) == 2
    change(bundle)
    with pytest.raises(runtime.EdgeError, match=message):
        runtime.load(bundle).search("moon")


@pytest.mark.parametrize(
    ("query", "message"),
    [("", "holds nothing"), (" \t\n", "holds nothing"), (("text", "text"), "a picture is a Path")],
)
def test_queries_that_cannot_be_read(whole: Path, query: str, message: str) -> None:
    with pytest.raises(runtime.EdgeError, match=message):
        runtime.load(whole).search(query)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_k": 0}, "top_k must be a whole number above 0, not 0"),
        ({"kinds": "nope"}, "unknown kinds .*'nope'.*; known: auto, all, text"),
        ({"kinds": []}, "unknown kinds"),
    ],
)
def test_options_that_mean_nothing(whole: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(runtime.EdgeError, match=message):
        runtime.load(whole).search("x", **options)


def test_an_unknown_expert_names_the_known(whole: Path) -> None:
    with pytest.raises(runtime.EdgeError, match="known: auto, base, code"):
        runtime.load(whole).embed_queries(["x"], expert="tool")


def test_the_steering_file_gives_back_bank_and_gate(model: Model, tmp_path: Path) -> None:
    registry = OmniEmbed(model, tmp_path / "store").embedder.experts
    settings = read_settings(model.directory, model.manifest.gate_dim)
    state = choose(registry, model.manifest, ["composed", "text"])
    write_steering(tmp_path, state, model.manifest.lora, settings)
    read = read_tensors(tmp_path / "steering.safetensors")
    assert settings is not None
    gate = assemble(settings, state.packs, state.bank.names)
    composed = state.packs["composed"].composed
    assert composed is not None
    expected = {**state.bank.feeds(model.manifest.lora), **gate.feeds()}
    expected["kinds"] = np.stack(list(settings.kinds.values()))
    expected |= {f"composed.composed.{name}": a for name, a in composed.tensors().items()}
    assert read.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(read[name], array, err_msg=name)


PICTURES = {
    "wide": Image.effect_mandelbrot((700, 300), (-2, -1, 1, 1), 90),
    "small": Image.effect_noise((9, 7), 80),
    "a strip": Image.effect_noise((2, 3000), 80),
    "palette": Image.effect_noise((260, 250), 90).convert("RGB").quantize(16),
    "transparent": Image.merge("RGBA", [Image.effect_noise((300, 240), 90)] * 4),
    "deep": Image.fromarray((np.arange(90_000).reshape(300, 300) % 65536).astype(np.uint16)),
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_runtime_sees_pictures_as_the_sdk_does(name: str, model: Model) -> None:
    preprocessing = model.manifest.image
    assert preprocessing is not None
    how = {
        "size": preprocessing.size,
        "crop": preprocessing.crop,
        "resample": preprocessing.resample,
    }
    seen = edge_pixels(edge_load(PICTURES[name]), **how)
    np.testing.assert_array_equal(seen, to_pixels(load_rgb(PICTURES[name]), preprocessing))


def test_broken_pictures_are_named(tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    for name in ("broken.png", "missing.png"):
        with pytest.raises(runtime.EdgeError, match=name):
            edge_load(tmp_path / name)


def test_an_earlier_bundle_is_replaced_and_nothing_else(omni: OmniEmbed, bundle: Path) -> None:
    mine = bundle / "mine.bin"
    mine.write_bytes(b"x")
    with pytest.raises(ExportError, match=r"'mine\.bin', which is no part of a bundle"):
        export_edge(omni.embedder, bundle, experts=("none",), images=False)
    mine.rename(bundle.parent / "mine.bin")
    (bundle / "omniembed_edge" / "__pycache__").mkdir(exist_ok=True)
    (bundle / "omniembed_edge" / "__pycache__" / "engine.cpython-311.pyc").write_bytes(b"")
    report = export_edge(omni.embedder, bundle, experts=("none",), images=False)
    assert "image.onnx" not in report.sizes
    assert (bundle / "steering.safetensors").stat().st_mode & 0o044
    assert report.experts == ()
    other = bundle.parent / "photos"
    other.mkdir()
    (other / "mine.txt").write_text("keep me")
    with pytest.raises(ExportError, match="no bundle"):
        export_edge(omni.embedder, other)
    with pytest.raises(ExportError, match="is a file"):
        export_edge(omni.embedder, other / "mine.txt")
    assert [file.name for file in other.iterdir()] == ["mine.txt"]
    assert not list(bundle.parent.glob(".bundle-*"))


def test_what_cannot_be_exported(omni: OmniEmbed, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UnknownExpertError, match=r"'legal'; known: .*code"):
        export_edge(omni.embedder, out, experts=("code", "legal"))
    with pytest.raises(ExportError, match="int8 and cannot become float; give --precision int8"):
        export_edge(omni.embedder, out, precision=Precision.FLOAT)
    with pytest.raises(ExportError, match="index something first"):
        export_edge(omni.embedder, out, store=omni.store)
    assert not out.exists()


def test_a_missing_npm_or_extra_is_named(
    omni: OmniEmbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("OMNIEMBED_HOME", str(tmp_path / "home"))
    with pytest.raises(ExportError, match="npm, which is not installed; install Node 20"):
        export_edge(omni.embedder, tmp_path / "node", target=Target.NODE, precision=Precision.INT8)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"omniembed\[edge\]"):
        export_edge(omni.embedder, tmp_path / "node", target=Target.NODE)
    assert not (tmp_path / "node").exists()


def test_a_graph_quantised_otherwise_is_not_made_portable() -> None:
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node(
        "MatMulIntegerToFloat", ["x", "w", "a", "b"], ["y"], "odd", domain="com.microsoft"
    )
    graph = onnx.helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")])
    with pytest.raises(ExportError, match="'odd' is not quantised by row"):
        make_portable(onnx.helper.make_model(graph).SerializeToString())


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["export", "edge", *map(str, arguments)])


def test_the_command_line_writes_a_bundle_that_searches(tmp_path: Path) -> None:
    store, out, notes = tmp_path / "store.lance", tmp_path / "out", tmp_path / "notes"
    notes.mkdir()
    (notes / "tides.md").write_text("# Tides\n\nThe Moon makes the sea rise twice a day.\n")
    CliRunner().invoke(app, ["index", str(notes), "--store", str(store)])
    result = run(
        *(out, "--experts", "code, text", "--precision", "int8", "--text-only"),
        *("--store", store, "--root", notes, "--json"),
    )
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["experts"], report["documents"]) == (["code", "text"], 1)
    assert report["total"] == sum(f.stat().st_size for f in out.rglob("*") if f.is_file())
    (hit,) = runtime.load(out).search("why does the sea rise?")
    assert hit.document["uri"] == "tides.md"
    unknown = run(tmp_path / "other", "--experts", "legal")
    assert unknown.exit_code == 1
    assert "unknown expert 'legal'" in unknown.output
