"""The JavaScript module under Node says what the Python runtime says, on the same files.

Runs where Node is installed and ``npm ci`` was run in ``export/edge/web``.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edge_kit import HOUSE, TEXTS
from PIL import Image
from tokenizers import Tokenizer

from omniembed import OmniEmbed
from omniembed.export.edge import Precision, Target, export_edge, javascript, runtime
from omniembed.export.edge.runtime.images import load_rgb, to_pixels
from omniembed.models.model import Model
from omniembed.sample import sample_directory

NODE = shutil.which("node")
MODULES = javascript.SOURCE / "node_modules"
CHECK = Path(__file__).parent / "edge_check.mjs"
DOCS = Path(__file__).parent.parent / "docs" / "EDGE.md"

pytestmark = pytest.mark.skipif(
    NODE is None or not MODULES.is_dir(),
    reason="needs Node, and `npm ci` in export/edge/web",
)


@pytest.fixture(scope="module")
def sdk(model: Model, tmp_path_factory: pytest.TempPathFactory) -> OmniEmbed:
    omni = OmniEmbed(model, tmp_path_factory.mktemp("store") / "sample.lance")
    omni.index(sample_directory())
    return omni


@pytest.fixture(scope="module")
def precision() -> Precision:
    pytest.importorskip("onnx")
    return Precision.PORTABLE


@pytest.fixture(scope="module")
def node(sdk: OmniEmbed, precision: Precision, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("node") / "bundle"
    export_edge(sdk.embedder, out, target=Target.NODE, precision=precision, store=sdk.store)
    return out


@pytest.fixture(scope="module")
def python(
    sdk: OmniEmbed, precision: Precision, tmp_path_factory: pytest.TempPathFactory
) -> runtime.Edge:
    out = tmp_path_factory.mktemp("python") / "bundle"
    export_edge(sdk.embedder, out, precision=precision, store=sdk.store)
    return runtime.load(out)


def ask(bundle: Path, folder: Path, **given: object) -> Any:
    """Run edge_check.mjs."""
    file = folder / "given.json"
    file.write_text(json.dumps(given), encoding="utf-8")
    done = subprocess.run(
        [str(NODE), str(CHECK), str(bundle), str(file)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def encoded(picture: Image.Image) -> dict[str, object]:
    return {
        "width": picture.width,
        "height": picture.height,
        "channels": len(picture.getbands()),
        "data": base64.b64encode(picture.tobytes()).decode(),
    }


@pytest.fixture(scope="module")
def agreement(node: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("given")
    return ask(node, folder, texts=TEXTS, picture=encoded(load_rgb(HOUSE)))["agreement"]


def test_queries_have_the_same_vectors_and_routes(agreement: Any, python: runtime.Edge) -> None:
    vectors, routes = python.encode_queries(TEXTS)
    np.testing.assert_allclose(agreement["vectors"], vectors, atol=1e-4)
    for got, route in zip(agreement["routes"], routes, strict=True):
        assert got["expert"] == route.expert
        assert got["kinds"] == route.kinds
        assert got["abstained"] == route.abstained
        assert got["truncated"] == route.truncated
        assert got["confidence"] == pytest.approx(route.confidence, abs=1e-4)
        assert got["scores"] == pytest.approx(dict(route.scores), abs=1e-4)
    assert len({route.expert for route in routes}) >= 3


def test_named_experts_pictures_and_composed_queries(agreement: Any, python: runtime.Edge) -> None:
    assert agreement["forced"].keys() == python.experts.keys()
    for name, vectors in agreement["forced"].items():
        expected = python.embed_queries(TEXTS[:3], expert=name)
        np.testing.assert_allclose(vectors, expected, atol=1e-4)
    documents = python.embed_documents([TEXTS[0], HOUSE, HOUSE])
    np.testing.assert_allclose(agreement["documents"], documents, atol=1e-4)
    composed = python.embed_queries([(HOUSE, "as a photo")])
    np.testing.assert_allclose(agreement["composed"], composed, atol=1e-4)


def test_searches_find_the_same_and_what_was_added(agreement: Any, python: runtime.Edge) -> None:
    for text, ids in zip(TEXTS[:6], agreement["hits"], strict=True):
        assert ids == [hit.document["id"] for hit in python.search(text, top_k=5)]
    assert agreement["added"] == "zebra"


def test_inputs_that_cannot_be_read(agreement: Any) -> None:
    refusals = agreement["refusals"]
    assert refusals["empty"].startswith("EdgeError: query 0 holds nothing")
    assert re.match("EdgeError: .*known: auto, base, code", refusals["unknown"])
    assert refusals["pixels"].startswith("EdgeError: 5 samples do not make 2 x 2")
    assert refusals["list"] == "EdgeError: documents must be given as a list, not string"
    assert refusals["kinds"].startswith('EdgeError: unknown kinds "nope"; known: auto, all')
    assert refusals["topK"] == "EdgeError: topK must be a whole number above 0, not 0"


def test_tokens_are_those_of_the_python_tokenizer(node: Path, tmp_path: Path, model: Model) -> None:
    file = model.directory / "tokenizer.json"
    own = Tokenizer.from_file(str(file))
    own.no_padding()
    own.enable_truncation(256)
    strings = [*TEXTS, *map(_random_text, range(150))]
    description = json.loads((node / "bundle.json").read_text(encoding="utf-8"))
    found = ask(node, tmp_path, strings=strings, tokenizer=str(file), description=description)[
        "ids"
    ]
    different = [
        text
        for text, one in zip(strings, found, strict=True)
        if one["ids"] != own.encode(text.strip()).ids
    ]
    assert not different


def _random_text(seed: int) -> str:
    """Letters of one of five parts of Unicode, with blanks."""
    rng = np.random.default_rng(seed)
    low, high = [(32, 127), (0xA0, 0x250), (0x370, 0x530), (0x4E00, 0x9FFF), (0x1F300, 0x1F650)][
        seed % 5
    ]
    return "".join(
        chr(int(code)) if rng.random() > 0.15 else " " for code in rng.integers(low, high, 24)
    ).strip()


def test_pictures_are_resized_as_pillow_does(node: Path, tmp_path: Path, model: Model) -> None:
    rng = np.random.default_rng(0)
    sizes = [(224, 224), (640, 481), (301, 999), (50, 40), (999, 301), (1, 1), (1024, 1024)]
    pictures = [
        Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8))
        for width, height in sizes
    ]
    preprocessing = model.manifest.image
    assert preprocessing is not None
    for resample in ("bicubic", "bilinear", "lanczos"):
        how = {"size": preprocessing.size, "crop": preprocessing.crop, "resample": resample}
        squares = ask(node, tmp_path, squares=[encoded(one) for one in pictures], how=how)
        for picture, square in zip(pictures, squares["squares"], strict=True):
            seen = np.frombuffer(base64.b64decode(square), np.uint8).reshape(224, 224, 3)
            expected = to_pixels(picture, **how)
            if picture.height <= 2 * picture.width:
                np.testing.assert_array_equal(seen, expected)
            else:  # a cut strip: Pillow 13 filters columns first, and rounds in between
                assert np.abs(seen.astype(int) - expected).mean() < 1


def test_broken_bundles_are_refused(node: Path, tmp_path: Path) -> None:
    def broken(name: str) -> Path:
        out = tmp_path / name
        shutil.copytree(node, out, copy_function=os.link)
        return out

    def put(path: Path, data: bytes) -> None:
        path.unlink()
        path.write_bytes(data)

    steering = gzip.decompress((node / "steering.safetensors.gz").read_bytes())
    expected = {}
    for name, file, data, message in (
        ("json", "bundle.json", b"{", "bundle.json is broken"),
        ("format", "bundle.json", b'{"format": 7}', "has bundle format 7"),
        ("fields", "bundle.json", b'{"format": 1}', "incomplete"),
        ("gzip", "text.onnx.gz", b"\x1f\x8bnothing", "text.onnx.gz is broken"),
        ("short", "text.onnx.data.gz", b"abc", "has 3 bytes, not"),
        ("garbage", "steering.safetensors.gz", b"\x07" * len(steering), "steering is broken"),
        ("vectors", "index/vectors.npy", b"\x93NUMPY\x01\x00", "vectors.npy is broken"),
        ("lines", "index/documents.jsonl", b"{\n", "documents.jsonl is broken"),
    ):
        folder = broken(name)
        put(folder / file, data)
        expected[str(folder)] = message
    missing = broken("missing")
    (missing / "tokenizer.json.gz").unlink()
    expected[str(missing)] = "cannot read"
    refusals = ask(node, tmp_path, broken=list(expected))["broken"]
    for refusal, message in zip(refusals, expected.values(), strict=True):
        assert refusal.startswith("EdgeError: ")
        assert message in refusal


def test_the_documented_example_has_the_right_types(node: Path, tmp_path: Path) -> None:
    (example,) = re.findall(r"```ts\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    shutil.copytree(node / "types", tmp_path / "types")
    (tmp_path / "omniembed-edge.d.mts").write_text('export * from "./types/index.js";\n')
    (tmp_path / "example.ts").write_text(example, encoding="utf-8")
    flags = ["--noEmit", "--strict", "--target", "es2022", "--module", "esnext"]
    flags += ["--moduleResolution", "bundler", "--lib", "es2022,dom"]
    done = subprocess.run(
        [str(NODE), str(MODULES / "typescript/bin/tsc"), *flags, "example.ts"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
