"""The demo: from the command to a usable page, and eight visitors at once.

Usable means that a browser, already running, shows the page and has the results of a first
example in it. Every visitor of the second part checks that each answer is its own: own tools,
own experts, own turns, and for shared searches what the SDK gives for the same query.

pip install '.[demo]' playwright        # and Chromium, for the first part
python benchmarks/demo.py --chromium /usr/bin/chromium
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from omniembed import OmniEmbed
from omniembed.sample import QUERIES, sample_directory

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-quic",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 120.0
TURNS_KEPT = 24


def free_port() -> int:
    """Find a port.

    Returns:
        One that nobody listens on.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(home: str) -> Iterator[str]:
    """Run ``omniembed demo``.

    Args:
        home: folder of everything it keeps.

    Yields:
        Its address; it may not answer yet.
    """
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "omniembed.cli", "demo", "--port", str(port)],
        env={**os.environ, "OMNIEMBED_HOME": home},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def wait_for(url: str) -> None:
    """Wait until the server answers.

    Args:
        url: of the page.

    Raises:
        TimeoutError: when it never does.
    """
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(url, timeout=PATIENCE).read()
            return
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(url)


def starts(chromium: str, runs: int) -> None:
    """Print the time from the command to the page and to a first result.

    Args:
        chromium: browser to use.
        runs: how often, each time in a new home and then once more in the same.
    """
    from playwright.sync_api import sync_playwright

    figures: dict[str, list[float]] = defaultdict(list)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        for _ in range(runs):
            with tempfile.TemporaryDirectory() as home:
                for name in ("first start", "later start"):
                    page = browser.new_page()
                    begun = time.perf_counter()
                    with running(home) as url:
                        wait_for(url)
                        page.goto(url)
                        page.locator("#search-examples button").first.click(timeout=60_000)
                        usable = time.perf_counter() - begun
                        page.locator("#search-results .oe-card").first.wait_for(timeout=60_000)
                        answered = time.perf_counter() - begun
                        page.close()
                    figures[f"{name}: page usable"].append(usable)
                    figures[f"{name}: first result"].append(answered)
    for name, values in figures.items():
        each = " ".join(f"{value:.2f}" for value in values)
        print(f"{name:28} median {statistics.median(values):.2f} s   ({each})")


@dataclass
class Log:
    """What the visitors saw.

    Attributes:
        seconds: of every call, by name.
        errors: calls that failed, in words.
        foreign: answers that were not the visitor's own, in words.
    """

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)


class Visitor:
    """One session.

    Args:
        url: of the page.
        number: of the visitor; its tools and turns carry it.
        log: shared by all.
        expected: what the SDK finds, by query.
    """

    def __init__(self, url: str, number: int, log: Log, expected: dict[str, list[str]]) -> None:
        from gradio_client import Client

        self._client = Client(url, verbose=False)
        self._number = number
        self._log = log
        self._expected = expected
        self._turns = 0

    def live(self, until: float) -> None:
        """Use the page until the time is up.

        Args:
            until: ``time.monotonic()`` at the end.
        """
        self._set_up()
        steps: tuple[Callable[[], None], ...] = (
            self._search,
            self._route,
            self._ask_tools,
            self._compose,
        )
        while time.monotonic() < until:
            for step in steps:
                try:
                    step()
                except Exception as error:
                    self._log.errors.append(f"{step.__name__}: {error}")

    def _call(self, name: str, *values: object) -> Any:
        begun = time.perf_counter()
        found = self._client.predict(*values, api_name=f"/{name}")
        self._log.seconds[name].append(time.perf_counter() - begun)
        return found

    def _check(self, right: bool, told: str) -> None:
        if not right:
            self._log.foreign.append(f"visitor {self._number}: {told}")

    def _set_up(self) -> None:
        from gradio_client import handle_file

        tools = [
            {"name": f"{verb}_{self._number}", "description": f"{verb} an order", "parameters": {}}
            for verb in ("refund", "track", "cancel")
        ]
        self._call("load_tools", json.dumps(tools))
        pictures = sorted((sample_directory() / "images").iterdir())
        self._call("compose_start", handle_file(pictures[self._number % len(pictures)]))

    def _search(self) -> None:
        query = QUERIES[(self._number + len(self._log.seconds["search"])) % len(QUERIES)]
        _, found = self._call("search", query, None, [], "any", "", "auto", "automatic", 8)
        places = re.findall(r'<span class="oe-place" title="(.*?)"', found)
        self._check(places == self._expected[query], f"search {query!r} gave {places}")

    def _route(self) -> None:
        decision, _, _ = self._call("route", f"list the files of folder {self._number}")
        self._check("The gate decides" in decision, "no decision")

    def _ask_tools(self) -> None:
        found = self._call("ask_tools", "where is my parcel", "auto")
        names = set(re.findall(r"<h4>(\w+)", found))
        own = {f"{verb}_{self._number}" for verb in ("refund", "track", "cancel")}
        self._check(names == own, f"tools {names}")

    def _compose(self) -> None:
        text = f"as number {self._number}"
        history, _ = self._call("compose", text)
        self._turns += 1
        count = history.count("as number")
        mine = history.count(text)
        self._check(count == mine == min(self._turns, TURNS_KEPT), f"{mine} of {count} turns")


def visitors(count: int, seconds: float) -> Log:
    """Let visitors use one page at the same time.

    Args:
        count: how many.
        seconds: how long.

    Returns:
        What they saw.
    """
    log = Log()
    with tempfile.TemporaryDirectory() as home, running(home) as url:
        expected = searched(f"{home}/sdk.lance")
        wait_for(url)
        crowd = [Visitor(url, number, log, expected) for number in range(count)]
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=one.live, args=(until,)) for one in crowd]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return log


def searched(store: str) -> dict[str, list[str]]:
    """Ask the SDK what the page should show.

    Args:
        store: where to index the sample to.

    Returns:
        The places of the hits, by query.
    """
    omni = OmniEmbed("mini", store)
    omni.index(sample_directory())
    top = f"{sample_directory().as_posix()}/"
    found = {}
    for query in QUERIES:
        places = []
        for hit in omni.search(query, top_k=8):
            lined = hit.document.start_line and hit.document.kind.value in {"text", "code"}
            line = f":{hit.document.start_line}" if lined else ""
            places.append(hit.document.uri.removeprefix(top) + line)
        found[query] = places
    return found


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--chromium", default="", help="browser; the first part is left out without"
    )
    options.add_argument("--starts", type=int, default=3)
    options.add_argument("--visitors", type=int, default=8)
    options.add_argument("--seconds", type=float, default=60.0)
    chosen = options.parse_args()
    if chosen.chromium and chosen.starts:
        starts(chosen.chromium, chosen.starts)
    if not chosen.visitors:
        return
    log = visitors(chosen.visitors, chosen.seconds)
    print(f"\n{chosen.visitors} visitors for {chosen.seconds:.0f} s")
    everything = [value for values in log.seconds.values() for value in values]
    for name, values in [*sorted(log.seconds.items()), ("all", everything)]:
        ordered = sorted(values)
        middle, late = ordered[len(ordered) // 2], ordered[int(0.95 * (len(ordered) - 1))]
        print(f"{name:14} {len(values):6,} calls   p50 {middle:.3f} s   p95 {late:.3f} s")
    print(f"errors {len(log.errors)} {Counter(log.errors).most_common(3)}")
    print(f"answers of somebody else {len(log.foreign)} {log.foreign[:3]}")
    sys.exit(1 if log.errors or log.foreign else 0)


if __name__ == "__main__":
    main()
