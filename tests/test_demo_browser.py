"""The page in a real browser: every tab is typed into, clicked and read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from demo_kit import (
    FLAGS,
    bomb_png,
    chromium,
    climbing_zip,
    functions,
    huge_file,
    script_svg,
    zipped,
)
from test_experts import write_pack

playwright = pytest.importorskip("playwright.sync_api")

from omniembed.sample import QUERIES, sample_directory  # noqa: E402

IMAGES = sample_directory() / "images"
PATIENCE = 30_000
LOCAL = ("data:", "blob:")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = chromium()
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=found, args=list(FLAGS))
        yield opened
        opened.close()


class Screen:
    """A page that remembers what went wrong in it and where it tried to connect to."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._note(request.url, url))
        # Whatever is not this server fails, as on a machine without a network.
        self.context.route(
            lambda address: not address.startswith((url, *LOCAL)), lambda route: route.abort()
        )
        self.page.goto(url)
        self.page.wait_for_selector("#search-go")

    def _note(self, address: str, url: str) -> None:
        if not address.startswith((url, *LOCAL)):
            self.elsewhere.append(address)

    def tab(self, name: str) -> None:
        self.page.get_by_role("tab", name=name, exact=True).click()

    def find(self, selector: str) -> Any:
        return self.page.locator(selector)

    def type(self, name: str, text: str) -> Any:
        field = self.find(f"#{name} textarea, #{name} input").first
        field.fill(text)
        return field

    def upload(self, name: str, file: Path) -> None:
        self.find(f"#{name} input[type=file]").set_input_files(str(file))

    def reads(self, selector: str, text: str) -> None:
        playwright.expect(self.find(selector)).to_contain_text(text, timeout=PATIENCE)

    def titles(self, name: str) -> list[str]:
        self.find(f"#{name} .oe-card").first.wait_for()
        return [text.strip() for text in self.find(f"#{name} .oe-card h4").all_inner_texts()]

    def overflows(self) -> bool:
        return bool(
            self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth + 1")
        )


@pytest.fixture
def screen(browser: Any, demo_url: str) -> Iterator[Screen]:
    opened = Screen(browser, demo_url, viewport={"width": 1280, "height": 900})
    yield opened
    opened.context.close()
    assert not opened.errors
    assert not opened.elsewhere


def test_search_by_words_examples_and_filters(screen: Screen) -> None:
    screen.type("search-text", QUERIES[1]).press("Enter")
    assert "TokenBucket" in screen.titles("search-results")
    screen.reads("#search-results", "code/rate_limit.py:8")
    screen.reads("#search-summary", "encode")
    assert screen.find("#search-results .hl-k").count() > 0
    screen.find("#search-examples button").nth(0).click()
    screen.find("#search-results mark").first.wait_for()
    screen.find("#search-filters button").first.click()
    screen.page.get_by_label("image (7)").check()
    screen.find("#search-results img").first.wait_for()
    playwright.expect(screen.find("#search-results .oe-k-text")).to_have_count(0)


def test_search_by_picture_and_on_from_a_result(screen: Screen) -> None:
    screen.upload("search-picture", IMAGES / "cat.webp")
    assert screen.titles("search-results")[0] == "cat"
    screen.reads("#search-summary", "a picture alone passes through no adapter")
    screen.type("search-text", "as a drawing")
    screen.find("#search-go").click()
    screen.reads("#search-summary", "composed")
    second = screen.titles("search-results")[1]
    screen.find("#search-results button[data-act=similar]").nth(1).click()
    screen.reads("#search-summary", "a picture alone passes through no adapter")
    assert screen.titles("search-results")[0] == second


def test_routing_follows_the_typing(screen: Screen) -> None:
    screen.tab("Routing")
    field = screen.find("#route-text textarea, #route-text input").first
    field.press_sequentially("show the disk usage of a folder", delay=5)
    screen.reads("#route-decision", "The gate decides to")
    screen.reads("#route-bars", "threshold 0.")
    assert screen.find("#route-bars .oe-bar").count() >= 5
    screen.find("#route-map .oe-near").last.hover()
    tip = screen.find("#route-map .oe-tip")
    playwright.expect(tip).to_be_visible()
    playwright.expect(tip).to_contain_text("to your query")
    screen.find("#route-forced input").click()
    screen.page.get_by_role("option", name="expert tool").click()
    screen.reads("#route-compare", "forced: tool")
    screen.reads("#route-compare", "keep their place")
    screen.find("#route-examples button").last.click()
    screen.reads("#route-decision", "keep to")
    screen.find("#route-decision .oe-abstained").wait_for()


def test_composed_over_several_turns_and_from_a_sketch(screen: Screen) -> None:
    screen.tab("Composed")
    screen.find("#pool button").first.click()
    screen.find("#composed-results .oe-card").first.wait_for()
    screen.type("composed-text", "at night").press("Enter")
    screen.reads("#composed-history", "at night")
    chosen = screen.titles("composed-results")[0]
    screen.find("#composed-results button[data-act=use]").first.click()
    playwright.expect(screen.find("#composed-history .oe-turn")).to_have_count(3)
    playwright.expect(screen.find("#composed-history .oe-turn img").last).to_have_attribute(
        "alt", chosen
    )
    screen.find("#composed-history .oe-turn").nth(1).click()
    playwright.expect(screen.find("#composed-history .oe-turn")).to_have_count(2)
    screen.tab("Upload")
    screen.upload("composed-picture", IMAGES / "umbrella.png")
    playwright.expect(screen.find("#composed-history .oe-turn")).to_have_count(1)
    screen.tab("Sketch")
    canvas = screen.find("#composed-sketch canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    mouse = screen.page.mouse
    mouse.move(box["x"] + 60, box["y"] + 60)
    mouse.down()
    mouse.move(box["x"] + 200, box["y"] + 220, steps=6)
    mouse.up()
    screen.find("[data-do=use]").click()
    playwright.expect(screen.find("#composed-history img").first).to_have_attribute(
        "alt", "your sketch"
    )
    assert len(screen.titles("composed-results")) >= 5


def test_tools_from_pasted_text_to_a_call(screen: Screen) -> None:
    screen.tab("Tools")
    screen.type("tools-text", functions("refund_order", "track_parcel"))
    screen.find("#tools-read").click()
    screen.reads("#tools-loaded", "2 tools are ready")
    screen.type("tools-question", "where is my parcel now?").press("Enter")
    assert screen.titles("tools-results")[0] == "track_parcel"
    screen.reads("#tools-results .oe-call >> nth=0", '"arguments"')
    screen.type("tools-text", "nothing like it")
    screen.find("#tools-read").click()
    screen.reads("#tools-loaded", "No tools were found")
    screen.find("#tools-examples button").nth(1).click()
    screen.reads("#tools-loaded", "3 tools are ready")


def test_experts_are_shown_added_used_and_removed(screen: Screen, tmp_path: Path) -> None:
    screen.tab("Experts")
    screen.reads("#experts-cards", "nDCG@10")
    screen.upload("experts-pack", climbing_zip(tmp_path / "evil.zip"))
    screen.reads("#experts-told", "outside itself")
    screen.upload(
        "experts-pack", zipped(write_pack(tmp_path / "brief", "brief"), tmp_path / "a.zip")
    )
    screen.reads("#experts-told", "brief is loaded for your session")
    card = screen.find("#experts-cards .oe-card").filter(has_text="only you see this")
    playwright.expect(card).to_contain_text("brief")
    screen.tab("Routing")
    screen.type("route-text", QUERIES[0])
    screen.find("#route-forced input").click()
    screen.page.get_by_role("option", name="expert brief").click()
    screen.reads("#route-compare", "forced: brief")
    screen.tab("Experts")
    card.get_by_role("button", name="Remove").click()
    screen.reads("#experts-told", "brief is gone")
    playwright.expect(card).to_have_count(0)


def test_hostile_pictures_are_refused_in_words(screen: Screen, tmp_path: Path) -> None:
    screen.upload("search-picture", bomb_png(tmp_path / "bomb.png", 8_000))
    screen.reads("#search-results", "40 megapixels")
    playwright.expect(screen.page.get_by_label("Remove Image")).to_have_count(0)
    screen.upload("search-picture", script_svg(tmp_path / "evil.svg"))
    screen.reads("#search-results", "cannot be read as a picture")
    playwright.expect(screen.page.get_by_label("Remove Image")).to_have_count(0)
    screen.upload("search-picture", huge_file(tmp_path / "huge.png"))
    screen.reads(".toast-body", "exceed the maximum allowed size")
    screen.type("search-text", QUERIES[2]).press("Enter")
    screen.find("#search-results .oe-card").first.wait_for()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_runs_over_the_edge(browser: Any, demo_url: str, width: int, scheme: str) -> None:
    options = {"viewport": {"width": width, "height": 844}, "color_scheme": scheme}
    screen = Screen(browser, demo_url, **options)
    dark = screen.page.evaluate("document.body.classList.contains('dark')")
    assert dark == (scheme == "dark")
    screen.find("#search-examples button").nth(1).click()
    screen.find("#search-results .oe-card").first.wait_for()
    assert not screen.overflows()
    for name in ("Routing", "Composed", "Tools", "Experts"):
        screen.tab(name)
        if name == "Routing":
            screen.find("#route-examples button").first.click()
            screen.find("#route-compare .oe-card").first.wait_for()
        assert not screen.overflows(), name
    screen.find(".oe-theme").click()
    assert screen.page.evaluate("document.body.classList.contains('dark')") != dark
    screen.context.close()
    assert not screen.errors
    assert not screen.elsewhere
