"""A Python bundle, in a process without omniembed, says what the SDK says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edge_kit import CAT, HOUSE, TEXTS, run_isolated

from omniembed import OmniEmbed
from omniembed.export.edge import export_edge, runtime
from omniembed.models.model import Model
from omniembed.sample import sample_directory
from omniembed.types import Query

RUN = """
import json, sys, dataclasses
from pathlib import Path
import omniembed_edge
texts, cat, house = json.loads(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
edge = omniembed_edge.load(threads=1)
vectors, routes = edge.encode_queries(texts)
mixed = [texts[0], cat, (house, "as a photo")]
found, taken = edge.encode_queries(mixed)
print(json.dumps({
    "vectors": vectors.tolist(),
    "routes": [dataclasses.asdict(route) for route in routes],
    "mixed": found.tolist(),
    "taken": [dataclasses.asdict(route) for route in taken],
    "forced": {name: edge.embed_queries(texts[:4], expert=name).tolist() for name in edge.experts},
    "documents": edge.embed_documents([texts[1], house, {"title": "T", "text": "body"}]).tolist(),
    "hits": [[(hit.score, hit.document["id"]) for hit in edge.search(text, top_k=5)]
             for text in [*texts[:6], cat]],
    "modules": sorted({name.partition(".")[0] for name in sys.modules}),
}))
"""


@pytest.fixture(scope="module")
def sdk(model: Model, tmp_path_factory: pytest.TempPathFactory) -> OmniEmbed:
    omni = OmniEmbed(model, tmp_path_factory.mktemp("store") / "sample.lance")
    omni.index(sample_directory())
    return omni


@pytest.fixture(scope="module")
def bundle(sdk: OmniEmbed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("edge") / "bundle"
    export_edge(sdk.embedder, out, store=sdk.store, root=sample_directory())
    return out


@pytest.fixture(scope="module")
def said(bundle: Path) -> dict[str, Any]:
    return run_isolated(bundle, RUN, json.dumps(TEXTS), CAT, HOUSE)


@pytest.mark.filterwarnings("ignore::omniembed.errors.TruncationWarning")
def test_text_queries_have_the_same_vectors_and_routes(
    said: dict[str, Any], sdk: OmniEmbed
) -> None:
    expected = sdk.embedder.embed_queries(TEXTS)
    np.testing.assert_allclose(said["vectors"], expected.vectors, atol=1e-6)
    for at, (got, route) in enumerate(zip(said["routes"], expected.routes, strict=True)):
        kinds = sdk.embedder.query_encoder.kinds(Query(TEXTS[at]), route, expected.states[at])
        assert got["kinds"] == (sorted(kind.value for kind in kinds) if kinds else None)
        assert got["expert"] == route.expert
        assert got["abstained"] == route.abstained
        assert got["truncated"] == route.truncated
        assert got["confidence"] == pytest.approx(route.confidence, abs=1e-5)
        assert got["scores"] == pytest.approx(dict(route.scores), abs=1e-5)
    assert len({got["expert"] for got in said["routes"]}) >= 3, "the texts should part the experts"
    assert len({str(got["kinds"]) for got in said["routes"]}) >= 3, "and the kinds"


def test_pictures_and_composed_queries_have_the_same_vectors(
    said: dict[str, Any], sdk: OmniEmbed
) -> None:
    expected = sdk.embedder.embed_queries([TEXTS[0], CAT, (HOUSE, "as a photo")])
    np.testing.assert_allclose(said["mixed"], expected.vectors, atol=1e-5)
    assert [one["expert"] for one in said["taken"]] == [one.expert for one in expected.routes]
    assert said["taken"][2]["expert"] == "composed"


def test_every_named_expert_and_documents_have_the_same_vectors(
    said: dict[str, Any], sdk: OmniEmbed
) -> None:
    assert set(said["forced"]) == set(sdk.embedder.experts.state.packs)
    for name, vectors in said["forced"].items():
        expected = sdk.embed_queries(TEXTS[:4], expert=name)
        np.testing.assert_allclose(vectors, expected, atol=1e-6)
    documents = sdk.embed_documents([TEXTS[1], HOUSE, "T\nbody"])
    np.testing.assert_allclose(said["documents"], documents, atol=1e-5)


def test_searches_find_the_same_documents(said: dict[str, Any], sdk: OmniEmbed) -> None:
    root = f"{sample_directory().as_posix()}/"
    for query, hits in zip([*TEXTS[:6], CAT], said["hits"], strict=True):
        expected = sdk.search(query, top_k=5, hybrid=False)
        assert [found for _, found in hits] == [
            hit.document.id.removeprefix(root) for hit in expected
        ]
        np.testing.assert_allclose(
            [score for score, _ in hits], [hit.score for hit in expected], atol=1e-4
        )


def test_the_runtime_loads_nothing_else(said: dict[str, Any]) -> None:
    assert not {"omniembed", "lancedb", "torch", "pyarrow", "safetensors", "typer"} & set(
        said["modules"]
    )


def test_a_selection_routes_as_the_sdk_with_these_experts_alone(
    model: Model, tmp_path: Path
) -> None:
    omni = OmniEmbed(model, tmp_path / "store.lance")
    report = export_edge(omni.embedder, tmp_path / "two", experts=("tool", "code"), images=False)
    for name in set(omni.embedder.experts.state.packs) - {"code", "tool"}:
        omni.embedder.experts.remove(name)
    assert set(report.experts) == {"code", "tool"}
    edge = runtime.load(tmp_path / "two", threads=1)
    vectors, routes = edge.encode_queries(TEXTS[:10])
    expected = omni.embedder.embed_queries(TEXTS[:10])
    assert [route.expert for route in routes] == [route.expert for route in expected.routes]
    assert {"code", "tool"} & {route.expert for route in routes}
    np.testing.assert_allclose(vectors, expected.vectors, atol=1e-6)


def test_a_bundle_of_text_alone_is_small_and_says_what_it_lacks(
    sdk: OmniEmbed, tmp_path: Path
) -> None:
    report = export_edge(
        sdk.embedder, tmp_path / "text", experts=("code", "text", "tool"), images=False
    )
    assert report.total <= 30e6
    edge = runtime.load(tmp_path / "text")
    with pytest.raises(runtime.EdgeError, match="text only"):
        edge.embed_queries([CAT])
    with pytest.raises(runtime.EdgeError, match="with --store"):
        edge.search("anything")


def test_a_full_bundle_stays_within_fifty_megabytes(bundle: Path) -> None:
    assert sum(file.stat().st_size for file in bundle.rglob("*") if file.is_file()) <= 50e6 + sum(
        file.stat().st_size for file in (bundle / "index").rglob("*") if file.is_file()
    )


def test_without_experts_the_base_serves(sdk: OmniEmbed, tmp_path: Path) -> None:
    export_edge(sdk.embedder, tmp_path / "base", experts=("none",), images=False)
    edge = runtime.load(tmp_path / "base")
    vectors, routes = edge.encode_queries(TEXTS[:4])
    assert {route.expert for route in routes} == {"base"}
    expected = sdk.embed_queries(TEXTS[:4], expert="base")
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_a_portable_graph_is_near_the_model_and_as_small(sdk: OmniEmbed, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    from omniembed.export.edge import Precision

    report = export_edge(
        sdk.embedder, tmp_path / "portable", precision=Precision.PORTABLE, images=False
    )
    assert report.precision == "portable"
    assert report.total <= 33e6
    edge = runtime.load(tmp_path / "portable")
    few = TEXTS[:12]
    for expert in ("base", "code", "text"):
        cosines = (
            edge.embed_queries(few, expert=expert) * sdk.embed_queries(few, expert=expert)
        ).sum(axis=1)
        assert cosines.min() >= 0.998
        assert cosines.max() < 1 - 1e-6, "the graph should have been rewritten"
    alone = np.concatenate([edge.embed_queries([text]) for text in few])
    np.testing.assert_allclose(alone, edge.embed_queries(few), atol=1e-5)
