"""Run one task with the SDK, with a Python bundle, under Node and in Chromium."""

from __future__ import annotations

import functools
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from edge_task import Task

from omniembed import Embedder
from omniembed.export.edge import runtime

RUNNER = Path(__file__).parent / "edge_run.mjs"
COLD_STARTS = 3
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-quic", "--no-first-run", "--disable-component-update", "--disable-sync"),
)

Result = dict[str, Any]
"""vectors, experts, forced, documents, top, scores, pictures, composed; where they were measured
also cold, busy (processor time of a cold start), times and seen, in milliseconds."""


def run_sdk(embedder: Embedder, task: Task) -> Result:
    """Run the task with the SDK.

    Args:
        embedder: the model and its experts.
        task: the work.

    Returns:
        The result, without times.
    """
    queries = embedder.embed_queries(task.queries)
    pairs = [(task.pictures[name], text) for name, text in task.pairs]
    few = task.queries[: task.record()["forced"]]
    documents = embedder.embed_documents(task.documents)
    return _ranked(queries.vectors, documents) | {
        "experts": [route.expert for route in queries.routes],
        "forced": {
            name: embedder.embed_queries(few, expert=name).vectors
            for name in embedder.experts.state.packs
        },
        "pictures": embedder.embed_documents(list(task.pictures.values())),
        "composed": embedder.embed_queries(pairs).vectors,
    }


def run_python(bundle: Path, task: Task) -> Result:
    """Run the task with a Python bundle; the modules are those that lie in it.

    Args:
        bundle: its folder.
        task: the work.

    Returns:
        The result.
    """
    cold, busy = [], []
    for _ in range(COLD_STARTS):
        start, used = time.perf_counter(), time.process_time()
        edge = runtime.load(bundle)
        edge.embed_queries(task.queries[:1])
        cold.append(1000 * (time.perf_counter() - start))
        busy.append(1000 * (time.process_time() - used))
    vectors, routes = edge.encode_queries(task.queries)
    few = task.queries[: task.record()["forced"]]
    pairs = [(task.pictures[name], text) for name, text in task.pairs]
    return _ranked(vectors, edge.embed_documents(task.documents)) | {
        "experts": [route.expert for route in routes],
        "forced": {name: edge.embed_queries(few, expert=name) for name in edge.experts},
        "pictures": edge.embed_documents(list(task.pictures.values())),
        "composed": edge.embed_queries(pairs),
        "cold": cold,
        "busy": busy,
        "times": [_timed(edge.embed_queries, one) for one in task.queries[:50]],
        "seen": [_timed(edge.embed_documents, one) for one in task.pictures.values()],
    }


def run_node(bundle: Path, task: Task) -> Result:
    """Run the task under Node.

    Args:
        bundle: a web or node bundle.
        task: the work.

    Returns:
        The result, with several cold starts.
    """
    given, out = task.folder / "task.json", task.folder / "node.json"
    colds, busy = [], []
    for work in _works(task):
        given.write_text(json.dumps(work), encoding="utf-8")
        subprocess.run(["node", str(RUNNER), str(bundle), str(given), str(out)], check=True)
        result: Result = json.loads(out.read_text(encoding="utf-8"))
        colds.append(result["cold"])
        busy.append(result["coldCpu"])
    return {**result, "cold": colds, "busy": busy}


def run_chromium(executable: str, bundle: Path, task: Task) -> Result:
    """Run the task in a headless Chromium, from a static server.

    Args:
        executable: path of the browser.
        bundle: a web bundle in the task's folder.
        task: the work.

    Returns:
        The result, with several cold starts.
    """
    from playwright.sync_api import sync_playwright

    folder = task.folder
    for name, file in task.pictures.items():
        (folder / name).write_bytes(file.read_bytes())
    (folder / "run.mjs").write_bytes(RUNNER.read_bytes())
    (folder / "blank.html").write_text("<!doctype html><title>-</title>", encoding="utf-8")
    code = """async ([bundle, task]) => {
        const { run } = await import("/run.mjs");
        const picture = async (name) => (await fetch(`/${name}`)).blob();
        return run(`/${bundle}/omniembed-edge.mjs`, task, picture);
    }"""
    colds, busy = [], []
    with serve(folder) as address, sync_playwright() as playwright:
        for work in _works(task):
            browser = playwright.chromium.launch(executable_path=executable, args=[*FLAGS])
            page = browser.new_page()
            page.goto(f"{address}/blank.html")
            probe = page.context.new_cdp_session(page)
            probe.send("Performance.enable")
            before = _process_time(probe)
            result: Result = page.evaluate(code, [bundle.name, work])
            colds.append(result["cold"])
            if not work["documents"]:  # nothing but the start
                busy.append(1000 * (_process_time(probe) - before))
            browser.close()
    return {**result, "cold": colds, "busy": busy}


def _process_time(probe: Any) -> float:
    """Ask the page's process how long it has computed, in seconds."""
    metrics = probe.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "ProcessTime"))


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder while the block runs.

    Args:
        folder: the folder.

    Yields:
        The address.
    """

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    handler = functools.partial(Quiet, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def _works(task: Task) -> list[dict[str, Any]]:
    """Give a start with one query several times, then everything."""
    whole = task.record()
    empty: dict[str, Any] = {"pictures": [], "pairs": [], "documents": []}
    first = {**whole, **empty, "queries": whole["queries"][:1], "repeats": 0, "forced": 0}
    return [*[first] * (COLD_STARTS - 1), whole]


def _ranked(queries: Any, documents: Any) -> Result:
    scores = queries @ documents.T
    top = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    return {"vectors": queries, "documents": documents, "scores": scores, "top": top}


def _timed(embed: Any, one: Any) -> float:
    start = time.perf_counter()
    embed([one])
    return 1000 * (time.perf_counter() - start)
