"""Vectors: shapes, order, batch invariance, empty and strange input, threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from omniembed import Document, Embedder, OmniEmbed, Query
from omniembed.errors import (
    EmptyInputError,
    ImageDecodeError,
    InputError,
    InputTypeError,
    ModelError,
    TruncationWarning,
    UnknownExpertError,
)
from omniembed.sample import sample_directory

TEXTS = [
    "a",
    "The quick brown fox jumps over the lazy dog.",
    "def add(a, b):\n    return a + b",
    "Wie hoch ist der Eiffelturm?",
    "🚀❤️ emoji and café",
    "مرحبا بالعالم",
    "北京是中华人民共和国的首都",
    "word " * 90,
    "NUL\x00inside and \x1b control",
    "surrogate \ud800 alone",
]
CAT = sample_directory() / "images" / "cat.webp"


def test_vectors_are_unit_float32_rows(omni: OmniEmbed) -> None:
    vectors = omni.embed_documents(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_nothing_gives_an_empty_array(omni: OmniEmbed) -> None:
    for vectors in (omni.embed_documents([]), omni.embed_queries([])):
        assert vectors.shape == (0, 384)
        assert vectors.dtype == np.float32
    assert omni.route([]) == []


def test_a_vector_does_not_depend_on_its_batch(embedder: Embedder) -> None:
    together = embedder.embed_documents(TEXTS * 3)
    alone = np.concatenate([embedder.embed_documents([text]) for text in TEXTS])
    for start in range(0, len(together), len(TEXTS)):
        assert np.array_equal(together[start : start + len(TEXTS)], alone)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=400), min_size=1, max_size=6))
def test_any_text_is_embedded_or_refused_by_name(texts: list[str]) -> None:
    embedder = Embedder(OmniEmbed().model)
    encoded = embedder.encode_documents([Document(text=text) for text in texts])
    assert sorted([*encoded.kept, *(row for row, _ in encoded.failures)]) == list(range(len(texts)))
    assert np.isfinite(encoded.vectors).all()
    assert all(isinstance(error, EmptyInputError) for _, error in encoded.failures)
    for position, row in enumerate(encoded.kept):
        assert np.array_equal(encoded.vectors[position], embedder.embed_documents([texts[row]])[0])


@pytest.mark.parametrize("text", ["", "   ", "\n\t\u00a0", "\x00\x00", "\u200b\ufeff"])
def test_empty_text_is_named(text: str, omni: OmniEmbed) -> None:
    with pytest.raises(EmptyInputError, match="1"):
        omni.embed_documents(["fine", text])
    with pytest.raises(EmptyInputError):
        omni.embed_queries(["fine", text])
    with pytest.raises(EmptyInputError):
        omni.search(text)


def test_truncation_is_reported(omni: OmniEmbed) -> None:
    long = "word " * 5000
    with pytest.warns(TruncationWarning, match=r"1 of the texts .* 256"):
        omni.embed_documents(["short", long])
    with pytest.warns(TruncationWarning):
        routes = omni.route(["short", long])
    assert [route.truncated for route in routes] == [False, True]


def test_a_huge_text_is_read_at_its_beginning(omni: OmniEmbed) -> None:
    with pytest.warns(TruncationWarning):
        vectors = omni.embed_documents(["tides " * 300, "tides " * 5_000_000])
    assert np.array_equal(vectors[0], vectors[1])


def test_mixed_queries_keep_their_order(omni: OmniEmbed) -> None:
    picture = Image.open(CAT)
    queries = [
        "a sleeping dog",
        CAT,
        (CAT, "on a chair"),
        picture,
        Query(text="tides", instruction="Find a note about"),
        "a sleeping dog",
    ]
    vectors = omni.embed_queries(queries)
    assert np.array_equal(vectors[0], vectors[5])
    assert np.array_equal(vectors[1], vectors[3])
    for row, query in enumerate(queries):
        assert np.allclose(vectors[row], omni.embed_queries([query])[0], atol=1e-6)
    instructed = omni.embed_queries(["Find a note about tides"])
    assert np.array_equal(vectors[4], instructed[0])


def test_a_composed_query_lies_between_its_parts(omni: OmniEmbed) -> None:
    composed, image, text = omni.embed_queries([(CAT, "a dog"), CAT, "a dog"])
    assert composed @ image > text @ image
    assert composed @ text > image @ text


def test_pictures_land_near_their_description(omni: OmniEmbed) -> None:
    images = sorted((sample_directory() / "images").glob("*"))
    names = [path.stem for path in images]
    vectors = omni.embed_documents(images)
    for text, name in [
        ("a cat", "cat"),
        ("a cup of coffee", "coffee"),
        ("an umbrella", "umbrella"),
    ]:
        scores = omni.embed_queries([text])[0] @ vectors.T
        assert names[int(scores.argmax())] == name


@pytest.mark.parametrize(
    ("documents", "error", "match"),
    [
        ("one text", InputTypeError, r"use \[item\]"),
        (["a", 3], InputTypeError, "document 1 is a int"),
        (["a", None], InputTypeError, "document 1"),
        (["a", Path("missing.png")], ImageDecodeError, r"image 1: .*missing\.png"),
        ([Document(kind="image", text="no picture")], InputError, "needs an image"),
        (42, InputTypeError, "must be a sequence"),
    ],
)
def test_bad_documents_are_named(
    documents: object, error: type[Exception], match: str, omni: OmniEmbed
) -> None:
    with pytest.raises(error, match=match):
        omni.embed_documents(documents)  # type: ignore[arg-type]


def test_an_image_makes_an_image_document(omni: OmniEmbed) -> None:
    vectors = omni.embed_documents([Document(text="hello", image=CAT), CAT, "hello"])
    assert np.array_equal(vectors[0], vectors[1])
    with pytest.raises(InputError, match="cannot have an image"):
        Document(text="x", kind="code", image=CAT)


def test_one_bad_document_does_not_spoil_the_rest(embedder: Embedder, tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"x")
    documents = [
        Document(text="first"),
        Document(kind="image", image=broken),
        Document(text=" "),
        Document(kind="image", image=CAT),
    ]
    encoded = embedder.encode_documents(documents)
    assert encoded.kept == [0, 3]
    assert [row for row, _ in encoded.failures] == [1, 2]
    assert np.array_equal(encoded.vectors[1], embedder.embed_documents([CAT])[0])


def test_unknown_experts_are_refused_before_work(omni: OmniEmbed) -> None:
    with pytest.raises(UnknownExpertError, match=r"'legal'.*base") as caught:
        omni.embed_queries(["text"], expert="legal")
    assert isinstance(caught.value, KeyError)
    with pytest.raises(UnknownExpertError):
        omni.search("text", expert="Base")


def test_threads_share_one_model(embedder: Embedder) -> None:
    expected = embedder.embed_documents(TEXTS)
    with ThreadPoolExecutor(6) as pool:
        results = list(
            pool.map(lambda _: Embedder(embedder.model).embed_documents(TEXTS), range(12))
        )
    assert all(np.array_equal(result, expected) for result in results)


@pytest.mark.parametrize("threads", [0, -1, True])
def test_thread_counts_are_checked(threads: int) -> None:
    with pytest.raises(InputError, match="threads"):
        OmniEmbed(threads=threads)


def test_constructing_touches_nothing(tmp_path: Path) -> None:
    omni = OmniEmbed(store=tmp_path / "store.lance")
    assert not (tmp_path / "store.lance").exists()
    assert len(omni.fingerprint) == 16
    assert not (tmp_path / "store.lance").exists()


def test_unknown_models_are_named() -> None:
    with pytest.raises(ModelError, match=r"'maxi'.*mini"):
        OmniEmbed("maxi")


def test_the_bundled_model_is_whole(omni: OmniEmbed) -> None:
    omni.model.verify()
    assert {part.licence for part in omni.model.manifest.provenance} >= {"Apache-2.0"}
