"""The served page over HTTP, without a browser: answers, sessions, refusals."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from demo_kit import (
    bomb_png,
    climbing_zip,
    functions,
    huge_file,
    places,
    script_svg,
    titles,
    zipped,
)
from test_experts import write_pack

httpx = pytest.importorskip("httpx")
gradio_client = pytest.importorskip("gradio_client")

from omniembed import OmniEmbed  # noqa: E402
from omniembed.demo.training import missing  # noqa: E402
from omniembed.models.model import Model  # noqa: E402
from omniembed.sample import QUERIES, sample_directory  # noqa: E402

IMAGES = sample_directory() / "images"


DEFAULTS = ([], "any", "", "auto", "automatic", 5)


def called(url: str, name: str, values: list[object]) -> str:
    """Ask without Gradio's client, which would check what it sends."""
    sent = httpx.post(f"{url}gradio_api/call/{name}", json={"data": values}, timeout=60)
    number = sent.json()["event_id"]
    return str(httpx.get(f"{url}gradio_api/call/{name}/{number}", timeout=60).text)


class Visitor:
    """A session of its own, as ``gradio_client`` has one."""

    def __init__(self, url: str) -> None:
        self._client = gradio_client.Client(url, verbose=False)

    def search(
        self, text: str = "", picture: Path | None = None, **changed: Any
    ) -> tuple[str, str]:
        wish = {
            "kinds": [],
            "language": "any",
            "path": "",
            "expert": "auto",
            "fusion": "automatic",
            "top_k": 5,
            **changed,
        }
        upload = gradio_client.handle_file(picture) if picture else None
        told, found = self._client.predict(text, upload, *wish.values(), api_name="/search")
        return str(told), str(found)

    def call(self, name: str, *values: object) -> Any:
        given = [gradio_client.handle_file(v) if isinstance(v, Path) else v for v in values]
        return self._client.predict(*given, api_name=f"/{name}")


@pytest.fixture(scope="module")
def somebody(demo_url: str) -> Visitor:
    return Visitor(demo_url)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory, model: Model) -> OmniEmbed:
    omni = OmniEmbed(model, tmp_path_factory.mktemp("sample") / "s.lance")
    omni.index(sample_directory())
    return omni


def test_the_page_loads_nothing_from_elsewhere(demo_url: str) -> None:
    page = httpx.get(demo_url).text
    config = httpx.get(f"{demo_url}config").text
    for host in ("fonts.googleapis", "fonts.gstatic", "api.gradio.app", "huggingface.co/spaces"):
        assert host not in config
        assert f'href="https://{host}' not in page
    assert json.loads(config)["analytics_enabled"] is False


@pytest.mark.parametrize("query", QUERIES)
def test_search_shows_what_the_sdk_finds(somebody: Visitor, sample: OmniEmbed, query: str) -> None:
    told, found = somebody.search(query)
    route = sample.route(query)
    top = sample_directory().as_posix() + "/"
    expected = []
    for hit in sample.search(query, top_k=5):
        place = hit.document.uri.removeprefix(top)
        lined = hit.document.start_line and hit.document.kind.value in {"text", "code"}
        expected.append(f"{place}:{hit.document.start_line}" if lined else place)
    assert places(found) == expected
    assert f">{route.expert}</span>" in told
    for step in ("encode", "route", "search"):
        assert f"<b>{step}</b>" in told


def test_a_picture_finds_itself_and_with_words_something_else(somebody: Visitor) -> None:
    told, found = somebody.search(picture=IMAGES / "cat.webp")
    assert places(found)[0] == "images/cat.webp"
    assert "data:image/webp;base64," in found
    told, found = somebody.search("at night", IMAGES / "house.png")
    assert ">composed</span>" in told
    assert set(titles(found)) <= {path.stem for path in IMAGES.iterdir()}


def test_filters_keep_to_kind_language_and_path(somebody: Visitor) -> None:
    found = somebody.search("wait before trying again", kinds=["code"])[1]
    assert {place.split("/")[0] for place in places(found)} == {"code"}
    found = somebody.search("wait before trying again", language="typescript")[1]
    assert all(place.startswith("code/debounce.ts") for place in places(found))
    found = somebody.search("wait before trying again", path="notes/", top_k=30)[1]
    assert {place.split("/")[0] for place in places(found)} == {"notes"}
    # What the page does not show cannot be searched for.
    _, found = somebody.search("wait before trying again", path=sample_directory().name + "/")
    assert "Nothing found" in found
    assert len(places(somebody.search("wait", top_k=3)[1])) == 3


def test_an_expert_can_be_forced(somebody: Visitor, sample: OmniEmbed) -> None:
    told, found = somebody.search(QUERIES[1], expert="code")
    assert ">code</span>" in told
    best = sample.search(QUERIES[1], expert="code", top_k=1)[0]
    assert f"<b>{best.score:.3f}</b>" in found


def test_the_matching_part_of_a_text_is_marked(somebody: Visitor) -> None:
    found = somebody.search(QUERIES[0], kinds=["text"])[1]
    assert "<mark>" in found


def test_nothing_asked_is_no_error(somebody: Visitor) -> None:
    assert "Ask for anything" in somebody.search("   ")[1]


def test_routing_shows_scores_threshold_and_decision(somebody: Visitor, sample: OmniEmbed) -> None:
    decision, bars, plane = somebody.call("route", QUERIES[1])
    route = sample.route(QUERIES[1])
    for name, score in route.scores.items():
        assert f'aria-label="{name}"' in bars
        assert f'aria-valuenow="{score:.3f}"' in bars
    assert "threshold 0." in bars
    assert f"{route.confidence:.2f}" in decision
    assert route.nearest[0].dataset in plane
    assert 'data-tip="your query"' in plane


def test_abstaining_is_shown_as_a_decision(somebody: Visitor, sample: OmniEmbed) -> None:
    query = "wie wird das wetter morgen?"
    assert sample.route(query).abstained
    decision = somebody.call("route", query)[0]
    assert "keep to" in decision
    assert "came closest" in decision


def test_two_lists_show_what_moved(somebody: Visitor) -> None:
    lists = somebody.call("compare", QUERIES[1], "tool")
    assert "forced: tool" in lists
    assert lists.count("<section") == 2
    assert "keep their place" in lists
    same = somebody.call("compare", "wie wird das wetter morgen?", "base")
    assert "6 of 6 keep their place" in same


def test_turns_refine_a_picture(demo_url: str) -> None:
    visitor = Visitor(demo_url)
    assert "Choose a picture" in visitor.call("compose", "at night")[1]
    history, found = visitor.call("compose_start", IMAGES / "house.png")
    assert history.count("oe-turn") == 1
    history, found = visitor.call("compose", "at night")
    assert "at night" in history
    assert ">composed</span>" in found
    assert history.count('data-act="back"') == 2


def test_tools_are_ranked_with_schema_and_skeleton(demo_url: str) -> None:
    visitor = Visitor(demo_url)
    assert "No tools yet" in visitor.call("ask_tools", "when is the next bus", "auto")
    text = (sample_directory() / "tools" / "city_services.yaml").read_text()
    assert "4 tools are ready" in visitor.call("load_tools", text)[0]
    found = visitor.call("ask_tools", "when is the next bus", "auto")
    assert titles(found)[0] == "listDepartures"
    assert "ready to fill in" in found
    assert "<summary>schema</summary>" in found
    assert "No tools were found" in visitor.call("load_tools", "nothing")[0]


def test_nobody_sees_the_tools_experts_or_turns_of_others(demo_url: str, tmp_path: Path) -> None:
    visitors = [Visitor(demo_url) for _ in range(4)]
    packs = [
        zipped(write_pack(tmp_path / f"mine{n}", f"mine{n}", seed=n), tmp_path / f"{n}.zip")
        for n in range(4)
    ]
    pictures = sorted(IMAGES.iterdir())

    def live(number: int) -> None:
        visitor = visitors[number]
        visitor.call("load_tools", functions(f"alpha{number}", f"beta{number}"))
        assert "is loaded for your session" in visitor.call("add_expert", packs[number])[0]
        visitor.call("compose_start", pictures[number])
        for turn in range(3):
            found = visitor.call("ask_tools", "do it", "auto")
            assert set(titles(found)) == {f"alpha{number}", f"beta{number}"}
            shown = [name for name in titles(visitor.call("experts")) if name.startswith("mine")]
            assert shown == [f"mine{number}"]
            history = visitor.call("compose", f"more of {number}")[0]
            assert history.count('data-act="back"') == turn + 2
            assert history.count(f"more of {number}") == turn + 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(live, range(4)))
    assert not [name for name in titles(Visitor(demo_url).call("experts")) if "mine" in name]


def test_an_added_expert_serves_only_its_visitor(demo_url: str, tmp_path: Path) -> None:
    visitor = Visitor(demo_url)
    before = visitor.search(QUERIES[0])[1]
    pack = zipped(write_pack(tmp_path / "brief", "brief"), tmp_path / "a.zip")
    visitor.call("add_expert", pack)
    assert "brief" in visitor.call("experts")
    assert Visitor(demo_url).search(QUERIES[0])[1] == before


@pytest.mark.parametrize("make", [bomb_png, script_svg])
def test_hostile_pictures_are_refused(somebody: Visitor, tmp_path: Path, make: Any) -> None:
    path = make(tmp_path / "a.png")
    _, found = somebody.search(picture=path)
    assert "That did not work" in found
    assert "megapixels" in found or "cannot be read as a picture" in found
    assert "That did not work" in somebody.call("compose_start", path)[1]
    assert places(somebody.search(QUERIES[0])[1])


def test_hostile_packs_are_refused(somebody: Visitor, tmp_path: Path) -> None:
    told = somebody.call("add_expert", climbing_zip(tmp_path / "x.zip"))[0]
    assert "outside itself" in told
    pack = write_pack(tmp_path / "odd", "odd", rank=4)
    (pack / "card.json").write_text("{}")
    told = somebody.call("add_expert", zipped(pack, tmp_path / "y.zip"))[0]
    assert "That did not work" in told
    assert "/tmp" not in told
    assert places(somebody.search(QUERIES[0])[1])


def test_a_file_of_200_mb_is_refused_while_it_arrives(
    demo_url: str, somebody: Visitor, tmp_path: Path
) -> None:
    path = huge_file(tmp_path / "big.png")
    with path.open("rb") as stream:
        try:
            answer = httpx.post(f"{demo_url}gradio_api/upload", files={"files": stream}, timeout=60)
            assert answer.status_code == 413
            assert "maximum allowed size" in answer.text
        except httpx.WriteError:
            pass  # the server hung up in the middle
    assert places(somebody.search(QUERIES[0])[1])


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        str(sample_directory() / "README.txt"),
        str(Path(__file__).resolve()),
        "http://127.0.0.1:9/x.png",
        "../../../../etc/passwd",
    ],
)
def test_no_file_of_the_host_is_served(demo_url: str, path: str) -> None:
    answer = httpx.get(f"{demo_url}gradio_api/file={path}")
    assert answer.status_code in {403, 404}
    assert "root:" not in answer.text


def test_no_address_is_fetched(demo_url: str) -> None:
    assert httpx.get(f"{demo_url}gradio_api/proxy=http://127.0.0.1:9/x").status_code == 403


@pytest.mark.parametrize("path", ["/etc/passwd", "http://127.0.0.1:9/x.png"])
def test_an_upload_cannot_name_a_file_or_an_address(demo_url: str, path: str) -> None:
    file = {"path": path, "meta": {"_type": "gradio.FileData"}}
    told = called(demo_url, "search", ["", file, *DEFAULTS])
    assert "event: error" in told
    assert "root:" not in told


def test_an_uploaded_svg_is_never_shown_inline(demo_url: str, tmp_path: Path) -> None:
    with script_svg(tmp_path / "a.svg").open("rb") as stream:
        path = httpx.post(f"{demo_url}gradio_api/upload", files={"files": stream}).json()[0]
    answer = httpx.get(f"{demo_url}gradio_api/file={path}")
    shown = answer.headers.get("content-disposition", "")
    assert answer.status_code == 403 or shown.startswith("attachment")


def test_training_without_its_extra_is_a_hint(demo_url: str) -> None:
    page = httpx.get(f"{demo_url}config").text
    if missing():
        assert "Training needs the extra" in page
        assert "omniembed[train]" in page
        assert "train-pairs" not in page
    else:
        assert "train-pairs" in page


@pytest.mark.skipif(bool(missing()), reason=f"training needs {', '.join(missing())}")
def test_a_visitor_trains_an_expert_and_watches(demo_url: str, tmp_path: Path) -> None:
    from test_training_sdk import write_pairs

    visitor = Visitor(demo_url)
    told, _ = visitor.call("train", None, "jargon", 40, False)
    assert "Upload a file with pairs first" in told
    job = visitor._client.submit(
        gradio_client.handle_file(write_pairs(tmp_path / "pairs.jsonl")),
        "jargon",
        20,
        True,
        api_name="/train",
    )
    seen = [str(shown[0]) for shown in job]
    assert any("embedding the documents" in one for one in seen)
    assert "jargon is loaded for your session" in seen[-1]
    assert "polyline" in seen[-1]
    assert "jargon" in titles(visitor.call("experts"))
    assert "jargon" not in titles(Visitor(demo_url).call("experts"))


def test_the_server_connects_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    from demo_kit import served_sample

    asked: list[str] = []
    look_up, connect = socket.getaddrinfo, socket.socket.connect

    def noting_look_up(host: Any, *rest: Any, **more: Any) -> Any:
        asked.append(str(host))
        return look_up(host, *rest, **more)

    def noting_connect(self: socket.socket, address: Any) -> None:
        asked.append(str(address[0] if isinstance(address, tuple) else "127.0.0.1"))
        connect(self, address)

    monkeypatch.setattr(socket, "getaddrinfo", noting_look_up)
    monkeypatch.setattr(socket.socket, "connect", noting_connect)
    with served_sample() as url:
        assert "TokenBucket" in called(url, "search", [QUERIES[1], None, *DEFAULTS])
    assert asked
    assert set(asked) <= {"127.0.0.1", "localhost", "::1"}


def test_nothing_is_left_when_the_page_is_closed(tmp_path: Path, monkeypatch: Any) -> None:
    from demo_kit import served_sample

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with served_sample() as url:
        Visitor(url).search(picture=IMAGES / "cat.webp")
        assert list(tmp_path.glob("omniembed-demo-*/**/*.webp"))
    assert not list(tmp_path.glob("omniembed-demo-*"))
