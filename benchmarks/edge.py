"""Edge bundles: sizes, agreement with the SDK under Node and in Chromium, start and latency.

Needs Node, and for the browser ``pip install playwright`` and a Chromium:
python benchmarks/edge.py --data DATA --chromium /usr/bin/chromium
"""

from __future__ import annotations

import functools
import itertools
import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from data import parser, read_jsonl
from numpy.typing import NDArray

from omniembed import Embedder
from omniembed.export.edge import Target, export_edge
from omniembed.models.images import load_rgb
from omniembed.models.model import Model

QUERY_SETS = (
    "scifact",
    "medquad",
    "openstax_text",
    "cranfield",
    "conala",
    "nl2bash",
    "mbpp",
    "wikisql",
    "metatool",
    "toollens",
    "sealtools",
    "clinc150",
)
DOCUMENT_SETS = ("scifact", "openstax_text", "conala", "pydoc_mined", "metatool")
PICTURES = {"coco_mini": 30, "openstax_figures": 10, "emoji": 10, "openclipart": 10}
MODIFICATIONS = ("as a drawing", "at night", "in black and white", "with a red background")
RUNNER = Path(__file__).parent / "edge_run.mjs"
COLD_STARTS = 3
UNTIMED: dict[str, Any] = {"cold": [np.nan], "times": [np.nan], "seen": [np.nan]}


def main() -> None:
    """Print the tables."""
    options = parser(__doc__)
    options.add_argument("--chromium", help="path of a Chromium; without it Node only")
    options.add_argument("--model", default="mini", help="bundled model or model directory")
    options.add_argument("--queries", type=int, default=200)
    options.add_argument("--documents", type=int, default=500)
    arguments = options.parse_args()
    embedder = Embedder(Model.load(arguments.model))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        web = print_sizes(embedder, folder)
        task, files = make_task(arguments, folder)
        reference = embed(embedder, task, files)
        (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
        found = {"Node": run_node(web, folder)}
        if arguments.chromium:
            found["Chromium"] = run_chromium(arguments.chromium, web, folder, task, files)
        nudged = Model(nudge(embedder.model.directory, folder / "nudged"))
        found["SDK, one weight nudged"] = embed(Embedder(nudged), task, files) | UNTIMED
        print(f"\n| | {' | '.join(found)} |")
        print("|---" * (len(found) + 1) + "|")
        for rows in zip(*map(compare_with(reference), found.values()), strict=True):
            print(f"| {rows[0][0]} | {' | '.join(value for _, value in rows)} |")


def nudge(directory: Path, out: Path) -> Path:
    """Move the weights of the first norm by the last bit, to see what rounding alone changes.

    Args:
        directory: of the model.
        out: a folder for its copy.

    Returns:
        The copy.
    """
    import onnx
    from onnx import numpy_helper

    shutil.copytree(directory.resolve(), out)
    graph = onnx.load(out / "text.onnx", load_external_data=False)
    norm = next(node for node in graph.graph.node if node.op_type == "LayerNormalization")
    weights = next(one for one in graph.graph.initializer if one.name == norm.input[1])
    if weights.external_data:
        place = {entry.key: entry.value for entry in weights.external_data}
        start, length = int(place["offset"]), int(place["length"])
        data = bytearray((out / place["location"]).read_bytes())
        moved = np.nextafter(np.frombuffer(data[start : start + length], np.float32), np.float32(9))
        data[start : start + length] = moved.tobytes()
        (out / place["location"]).write_bytes(data)
    else:
        moved = np.nextafter(numpy_helper.to_array(weights), np.float32(9))
        weights.CopyFrom(numpy_helper.from_array(moved, weights.name))
        (out / "text.onnx").write_bytes(graph.SerializeToString())
    return out


def print_sizes(embedder: Embedder, folder: Path) -> Path:
    """Export every kind of bundle and print what it weighs.

    Args:
        embedder: the model and its experts.
        folder: for the bundles.

    Returns:
        The full web bundle.
    """
    names = list(embedder.experts.state.packs)
    three = [name for name in ("code", "text", "tool") if name in names] or names[:3]
    kinds = {
        "all experts, text and images": (("all",), True),
        "one expert, text and images": (tuple(three[:1]) or ("none",), True),
        "three experts, text only": (tuple(three) or ("none",), False),
        "one expert, text only": (tuple(three[:1]) or ("none",), False),
    }
    print("| MB | python | node | web |\n|---|---|---|---|")
    for kind, (experts, images) in kinds.items():
        cells = []
        for target in Target:
            out = folder / f"{target.value}-{len(experts)}-{experts[0]}-{images}"
            report = export_edge(embedder, out, target=target, experts=experts, images=images)
            cells.append(f"{report.total / 1e6:.1f}")
        print(f"| {kind} | {' | '.join(cells)} |")
    return folder / "web-1-all-True"


def make_task(arguments: Any, folder: Path) -> tuple[dict[str, Any], dict[str, Path]]:
    """Gather queries, documents and pictures.

    Args:
        arguments: of the command line.
        folder: for decoded pictures.

    Returns:
        The task as JSON values, and the picture files by name.
    """
    texts = arguments.data / "text_code_tool"

    def take(sets: Sequence[str], file: str, count: int) -> list[str]:
        share = -(-count // len(sets))
        rows = (itertools.islice(read_jsonl(texts / name / file), share) for name in sets)
        found = [f"{row.get('title', '')}\n{row['text']}".strip() for part in rows for row in part]
        return found[:count]

    files: dict[str, Path] = {}
    sizes = {}
    for name, count in PICTURES.items():
        for file in sorted((arguments.data / "image" / name / "images").iterdir())[:count]:
            key = f"{len(files)}"
            picture = load_rgb(file)
            (folder / f"{key}.rgb").write_bytes(picture.tobytes())
            files[key], sizes[key] = file, picture.size
    pairs = [
        (key, MODIFICATIONS[at % len(MODIFICATIONS)]) for at, key in enumerate(list(files)[:20])
    ]
    task = {
        "queries": take(QUERY_SETS, "queries.jsonl.gz", arguments.queries),
        "documents": take(DOCUMENT_SETS, "corpus.jsonl.gz", arguments.documents),
        "pictures": list(files),
        "pairs": pairs,
        "sizes": sizes,
        "pixels": str(folder),
        "repeats": 50,
        "forced": 20,
    }
    return task, files


def embed(embedder: Embedder, task: Mapping[str, Any], files: Mapping[str, Path]) -> dict[str, Any]:
    """Do with the SDK what the runner does with a bundle.

    Args:
        embedder: the model and its experts.
        task: from :func:`make_task`.
        files: picture files by name.

    Returns:
        What the runner returns, without times.
    """
    queries = embedder.embed_queries(task["queries"])
    documents = embedder.embed_documents(task["documents"])
    scores = queries.vectors @ documents.T
    pairs = [(files[name], text) for name, text in task["pairs"]]
    few = task["queries"][: task["forced"]]
    return {
        "vectors": queries.vectors,
        "experts": [route.expert for route in queries.routes],
        "forced": {
            name: embedder.embed_queries(few, expert=name).vectors
            for name in embedder.experts.state.packs
        },
        "documents": documents,
        "top": np.argsort(-scores, axis=1, kind="stable")[:, :10],
        "scores": scores,
        "pictures": embedder.embed_documents([files[name] for name in task["pictures"]]),
        "composed": embedder.embed_queries(pairs).vectors,
    }


def run_node(bundle: Path, folder: Path) -> dict[str, Any]:
    """Run the task under Node.

    Args:
        bundle: a web bundle, whose module is that of a node bundle.
        folder: with task.json.

    Returns:
        What the runner returns, with several cold starts.
    """
    results = []
    for _ in range(COLD_STARTS):
        out = folder / "node.json"
        command = ["node", str(RUNNER), str(bundle), str(folder / "task.json"), str(out)]
        subprocess.run(command, check=True)
        results.append(json.loads(out.read_text(encoding="utf-8")))
    return {**results[-1], "cold": [one["cold"] for one in results]}


def run_chromium(
    executable: str, bundle: Path, folder: Path, task: Mapping[str, Any], files: Mapping[str, Path]
) -> dict[str, Any]:
    """Run the task in a headless Chromium, from a static server.

    Args:
        executable: path of the browser.
        bundle: a web bundle.
        folder: that the server serves.
        task: from :func:`make_task`.
        files: picture files by name.

    Returns:
        What the runner returns, with several cold starts.
    """
    from playwright.sync_api import sync_playwright

    for name, file in files.items():
        (folder / name).write_bytes(file.read_bytes())
    (folder / "run.mjs").write_bytes(RUNNER.read_bytes())
    (folder / "blank.html").write_text("<!doctype html><title>-</title>", encoding="utf-8")
    code = """async ([bundle, task]) => {
        const { run } = await import("/run.mjs");
        const { OmniEmbedEdge } = await import(`/${bundle}/omniembed-edge.mjs`);
        const picture = async (name) => (await fetch(`/${name}`)).blob();
        return run(() => OmniEmbedEdge.load(), task, picture);
    }"""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    flags += ["--disable-quic", "--no-first-run", "--disable-component-update", "--disable-sync"]
    empty = {"pictures": [], "pairs": [], "documents": [], "repeats": 0, "forced": 0}
    first = {**task, **empty, "queries": task["queries"][:1]}
    colds = []
    with serve(folder) as address, sync_playwright() as playwright:
        for work in [*[first] * (COLD_STARTS - 1), task]:
            browser = playwright.chromium.launch(executable_path=executable, args=flags)
            page = browser.new_page()
            page.goto(f"{address}/blank.html")
            result: dict[str, Any] = page.evaluate(code, [bundle.name, work])
            colds.append(result["cold"])
            browser.close()
    return {**result, "cold": colds}


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


def compare_with(reference: Mapping[str, Any]) -> Any:
    """Make the comparison of one run with the SDK.

    Args:
        reference: from :func:`embed`.

    Returns:
        A function from a run to (name, figure) pairs.
    """

    def compare(run: Mapping[str, Any]) -> list[tuple[str, str]]:
        same = sum(a == b for a, b in zip(run["experts"], reference["experts"], strict=True))
        total = len(reference["experts"])
        ranked = np.array(run["top"])
        equal = int((ranked == reference["top"]).all(axis=1).sum())
        sets = sum(
            set(a) == set(b)
            for a, b in zip(ranked.tolist(), reference["top"].tolist(), strict=True)
        )
        forced = np.concatenate(
            [cosines(run["forced"][name], own) for name, own in reference["forced"].items()]
            or [np.ones(1)]
        )
        return [
            ("same expert", f"{same} of {total}"),
            ("queries, cosine", figures(cosines(run["vectors"], reference["vectors"]))),
            ("queries with every expert, cosine", figures(forced)),
            ("documents, cosine", figures(cosines(run["documents"], reference["documents"]))),
            ("same top 10, as sets", f"{sets} of {total}"),
            ("same top 10, in order", f"{equal} of {total}"),
            ("widest score gap among exchanged", f"{exchanged(ranked, reference):.5f}"),
            ("images, cosine", figures(cosines(run["pictures"], reference["pictures"]))),
            ("composed, cosine", figures(cosines(run["composed"], reference["composed"]))),
            ("cold start to first vector, ms", f"{np.median(run['cold']):.0f}"),
            ("single query, ms", f"{np.median(run['times']):.1f}"),
            ("single image, ms", f"{np.median(run['seen']):.0f}"),
        ]

    return compare


def exchanged(ranked: NDArray[np.int64], reference: Mapping[str, Any]) -> float:
    """Measure how far apart documents lie that one side ranks in the top 10 and the other not.

    Args:
        ranked: int64 (n, 10), of the run.
        reference: from :func:`embed`.

    Returns:
        Largest difference of the SDK's scores to its tenth score.
    """
    gaps = [0.0]
    for row, (own, other) in enumerate(zip(ranked, reference["top"], strict=True)):
        scores = reference["scores"][row]
        gaps += [float(scores[other[-1]] - scores[at]) for at in set(own) - set(other)]
    return max(gaps)


def cosines(a: Any, b: Any) -> NDArray[np.float64]:
    """Compare rows.

    Args:
        a: (n, dim), unit norm.
        b: (n, dim), unit norm.

    Returns:
        (n,).
    """
    return np.asarray((np.asarray(a, np.float64) * np.asarray(b, np.float64)).sum(axis=1))


def figures(values: NDArray[np.float64]) -> str:
    """Say minimum and median.

    Args:
        values: cosines.

    Returns:
        Both.
    """
    return f"min {values.min():.5f}, median {np.median(values):.5f}"


if __name__ == "__main__":
    main()
