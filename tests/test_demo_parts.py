"""The pieces of the page: markup, cards, map, roots, turns, skeletons, library."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from demo_kit import places

from omniembed import Embedder, OmniEmbed
from omniembed.demo.cards import CardView, cards, summary
from omniembed.demo.engine import MAX_QUERY_CHARACTERS, Ask, ask, routed
from omniembed.demo.examples import Example, chips, examples, picked, text_chips
from omniembed.demo.geometry import PlaneCache
from omniembed.demo.library import is_store, open_library
from omniembed.demo.markup import NAMED, PALETTE, chip, code_block, colour, esc, notice
from omniembed.demo.passages import matching_parts, sentences
from omniembed.demo.pictures import readable, thumbnail
from omniembed.demo.plots import Curve, curve_svg, gate_bars, map_svg
from omniembed.demo.roots import Roots
from omniembed.demo.skeleton import skeleton
from omniembed.demo.turns import MAX_TURNS, Conversation, Reference, Turn
from omniembed.errors import IngestError, InputError, StoreError
from omniembed.sample import sample_directory
from omniembed.types import Document, Hit, Kind, Query, Route

EVIL = "<img src=x onerror=alert(1)> ${window} `x` {{y}}"
ANYWHERE = Roots((Path("/nowhere"),))


def hit(**fields: object) -> Hit:
    return Hit(0.5, Document(**{"id": "1", **fields}), Route())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "drawn",
    [
        chip(EVIL, title=EVIL),
        notice(EVIL, EVIL),
        code_block(EVIL, "python", 1),
        code_block(EVIL, "no such language"),
        text_chips([EVIL]),
        gate_bars({EVIL: 0.5}, 0.4, EVIL, [EVIL]),
        curve_svg(Curve(EVIL, ((0, 1.0), (1, 2.0)))),
        cards([hit(text=EVIL, title=EVIL, uri=EVIL)], CardView(ANYWHERE)),
        cards([hit(text=EVIL, kind=Kind.CODE, symbol=EVIL)], CardView(ANYWHERE)),
        cards(
            [
                hit(
                    kind=Kind.TOOL,
                    title=EVIL,
                    metadata={
                        "schema": {
                            "name": EVIL,
                            "parameters": {"properties": {EVIL: {"type": EVIL}}},
                        }
                    },
                )
            ],
            CardView(ANYWHERE, calls=True),
        ),
    ],
)
def test_no_text_becomes_markup(drawn: str) -> None:
    assert "<img src=x" not in drawn
    assert "${" not in drawn
    assert "{{" not in drawn
    assert "`" not in drawn


def test_code_keeps_its_text_and_numbers_its_lines() -> None:
    drawn = code_block("def f():\n    return 1", "python", 41)
    assert "41\n42" in drawn
    assert '<span class="hl-k">def</span>' in drawn


def test_an_expert_looks_like_the_kind_of_its_name() -> None:
    experts = ["code", "mine", "yours"]
    assert colour("code", experts) == NAMED["code"]
    assert colour("mine", experts) == PALETTE[0]
    assert colour("yours", experts) == PALETTE[1]
    assert colour("base", experts) not in {*PALETTE, *NAMED.values()}


def test_a_call_has_what_is_required() -> None:
    function = {
        "name": "book",
        "inputSchema": {
            "properties": {
                "day": {"type": "string", "format": "date"},
                "seats": {"type": ["null", "integer"]},
                "size": {"enum": ["s", "m"]},
                "guest": {"properties": {"name": {"type": "string"}}},
                "tags": {"type": "array", "items": {"type": "boolean"}},
                "note": {"default": "none"},
            },
            "required": ["day", "seats", "size", "guest", "tags"],
        },
    }
    assert skeleton(function) == {
        "name": "book",
        "arguments": {
            "day": "<date>",
            "seats": 0,
            "size": "s",
            "guest": {"name": ""},
            "tags": [False],
        },
    }
    function["inputSchema"] = {"properties": {"note": {"default": "none"}}}
    assert skeleton(function)["arguments"] == {"note": "none"}


@pytest.mark.parametrize("schema", [None, [], "x", {"properties": 7}, {"properties": {"a": 3}}])
def test_a_strange_schema_still_gives_a_call(schema: object) -> None:
    assert skeleton({"name": "x", "parameters": schema})["name"] == "x"


def test_a_schema_that_contains_itself_ends() -> None:
    schema: dict[str, object] = {"type": "object", "properties": {}}
    schema["properties"] = {"child": schema}
    assert "child" in skeleton({"name": "x", "parameters": schema})["arguments"]


def test_only_files_below_the_roots_are_shown(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    source = sample_directory() / "images" / "umbrella.png"
    for folder in (inside, outside):
        (folder / "a.png").write_bytes(source.read_bytes())
    os.symlink(outside / "a.png", inside / "link.png")
    roots = Roots.of_path(inside)
    assert str(thumbnail(inside / "a.png", roots)).startswith("data:image/webp;base64,")
    for path in (outside / "a.png", inside / "link.png", inside / ".." / "out" / "a.png"):
        assert thumbnail(path, roots) is None
        assert readable(path, roots) is None


def test_no_path_of_the_host_is_shown(tmp_path: Path) -> None:
    roots = Roots.of_path(tmp_path / "notes" / "*.md")
    assert roots.shown(f"{tmp_path}/notes/a.md") == "a.md"
    assert roots.shown("/elsewhere/deep/down/b.md") == "down/b.md"
    assert roots.shown("faq-1") == "faq-1"
    many = Roots.of_sources([f"{tmp_path}/a/x.md", f"{tmp_path}/b/y.md", "record"])
    assert many.shown(f"{tmp_path}/a/x.md") == "a/x.md"
    assert not many.allows(tmp_path / "c" / "z.md")


def test_a_digest_is_no_place() -> None:
    assert places(cards([hit(id="0" * 32)], CardView(ANYWHERE))) == [""]
    assert places(cards([hit(id="faq-1")], CardView(ANYWHERE))) == ["faq-1"]


def test_a_passage_flows_and_starts_behind_its_heading() -> None:
    text = (
        "# Tides\n\n"
        + "The Moon pulls the near side more strongly than it pulls the far\nside.\n- a\n- b"
    )
    drawn = cards([hit(text=text, title="Tides")], CardView(ANYWHERE))
    assert "it pulls the far side.\n- a\n- b</p>" in drawn
    assert "# Tides" not in drawn


def test_the_nearest_sentence_is_marked(embedder: Embedder) -> None:
    text = (
        "Tyres want air once a month. The Moon pulls the water and makes the tides. Tea is a drink."
    )
    found = hit(text=text)
    vector = embedder.embed_queries(["why is there ebb and flow of the sea"]).vectors[0]
    part = matching_parts([found], vector, embedder)["1"]
    assert text[part.start : part.end] == "The Moon pulls the water and makes the tides."
    drawn = cards([found], CardView(ANYWHERE, parts={"1": part}))
    assert "<mark>The Moon pulls the water and makes the tides.</mark>" in drawn
    assert len(sentences(text)) == 3


def test_the_map_shows_every_pilot_and_the_query(embedder: Embedder) -> None:
    packs = embedder.experts.state.packs
    settings = embedder.query_encoder.settings
    assert settings is not None
    route, state = routed(embedder, "list files by size")
    planes = PlaneCache()
    plane = planes.place(packs, settings.center, state)
    assert len(plane.points) == sum(len(pack.pilots) for pack in packs.values()) > 10
    assert plane.query is not None
    assert 0.1 < plane.explained <= 1.0
    best = max(plane.points, key=lambda point: point.similarity)
    first = route.nearest[0]
    assert (best.expert, best.dataset) == (first.expert, first.dataset)
    assert best.similarity == pytest.approx(first.similarity, abs=1e-4)
    drawn = map_svg(plane, list(packs))
    assert drawn.count("data-tip=") == len(plane.points) + 1
    assert drawn.count("<line") == 3
    still = planes.place(packs, settings.center, None)
    assert [(one.x, one.y) for one in still.points] == [(one.x, one.y) for one in plane.points]


def test_the_map_of_no_pilots_is_empty() -> None:
    assert PlaneCache().place({}, None, np.ones(384, np.float32)).points == ()


def test_turns_go_on_and_back() -> None:
    talk = Conversation()
    first, second = (Reference(name, Path(name), "") for name in "ab")
    talk.start(first)
    talk.add(Turn(first, "", ()))
    talk.add(Turn(first, "at night", ()))
    talk.reference = second
    talk.add(Turn(second, "", ()))
    assert talk.back_to(1).text == "at night"
    assert talk.reference is first
    assert len(talk.turns) == 2
    for _ in range(2 * MAX_TURNS):
        talk.add(Turn(first, "more", ()))
    assert len(talk.turns) == MAX_TURNS


def test_an_answer_is_that_of_the_sdk(omni: OmniEmbed) -> None:
    omni.index(sample_directory())
    for query in ("limit the number of requests per second", "a cat looking into the camera"):
        answer = ask(omni.embedder, omni.store, Ask(Query(text=query), top_k=5))
        expected = omni.search(query, top_k=5)
        assert [one.document.id for one in answer.hits] == [one.document.id for one in expected]
        assert [one.score for one in answer.hits] == [one.score for one in expected]
        assert answer.route.scores == omni.route(query).scores
        assert min(answer.encode, answer.explain, answer.search) > 0
        assert "encode" in summary(answer, [])


def test_a_query_without_end_is_refused(omni: OmniEmbed) -> None:
    with pytest.raises(InputError, match="10,000 are the limit"):
        routed(omni.embedder, "x" * (MAX_QUERY_CHARACTERS + 1))


def test_the_sample_is_the_library_by_default() -> None:
    library = open_library(None)
    assert library.sample
    assert set(library.info.kinds) == {"text", "code", "image", "tool"}
    assert "python" in library.info.languages
    again = open_library(None)
    assert again.report is not None
    assert again.report.added == 0
    offered = examples(library)
    assert Example("at night", sample_directory() / "images" / "house.png") in offered
    assert chips(offered, library).count("<img") == 2


def test_a_folder_is_indexed_and_a_store_is_opened(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# Brakes\n\nSqueeze the lever and look at the pads.\n")
    store = tmp_path / "s.lance"
    assert open_library(str(notes), store=str(store)).info.rows == 1
    assert is_store(str(store))
    opened = open_library(str(store))
    assert opened.report is None
    assert opened.roots.shown(f"{notes}/a.md") == "a.md"
    assert "Brakes" in [one.text for one in examples(opened)]


def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(IngestError, match="nothing that can be indexed"):
        open_library(str(tmp_path / "empty"))
    with pytest.raises(StoreError, match="no store in"):
        open_library(f"file://{tmp_path}/none.lance")


@pytest.mark.parametrize("at", [None, "1", 99, -1, 1.5])
def test_a_click_on_nothing_takes_the_first(at: object) -> None:
    assert picked(("a", "b"), at) == "a"
    assert picked(("a", "b"), 1) == "b"


def test_escaping_is_complete() -> None:
    assert esc("<a href='x'>\"&") == "&lt;a href=&#x27;x&#x27;&gt;&quot;&amp;"
