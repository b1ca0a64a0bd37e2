"""Edge bundles: sizes, agreement with Python under Node and in Chromium, start and latency.

Needs Node, and for the browser ``pip install playwright`` and a Chromium:
python benchmarks/edge.py --data DATA --chromium /usr/bin/chromium
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from data import parser
from edge_runs import Result, run_chromium, run_node, run_python, run_sdk
from edge_task import make_task
from numpy.typing import NDArray

from omniembed import Embedder
from omniembed.export.edge import Precision, Target, export_edge
from omniembed.models.model import Model


def main() -> None:
    """Print the tables."""
    options = parser(__doc__)
    options.add_argument("--chromium", help="path of a Chromium; without it Node only")
    options.add_argument("--model", default="mini", help="bundled model or model directory")
    options.add_argument("--queries", type=int, default=200)
    options.add_argument("--documents", type=int, default=500)
    options.add_argument("--precision", choices=["portable", "int8"], help="only this one")
    arguments = options.parse_args()
    embedder = Embedder(Model.load(arguments.model))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        print_sizes(embedder, folder)
        task = make_task(
            arguments.data, folder, queries=arguments.queries, documents=arguments.documents
        )
        sdk = run_sdk(embedder, task)
        one = arguments.precision
        for precision in [Precision(one)] if one else [Precision.PORTABLE, Precision.INT8]:
            python, web = folder / f"python-{precision.value}", folder / f"web-{precision.value}"
            export_edge(embedder, python, precision=precision)
            export_edge(embedder, web, target=Target.WEB, precision=precision)
            found = {"Python": run_python(python, task), "Node": run_node(web, task)}
            if arguments.chromium:
                found["Chromium"] = run_chromium(arguments.chromium, web, task)
            found["SDK (int8)"] = sdk
            if precision is Precision.INT8:
                nudged = Model(nudge(embedder.model.directory, folder / "nudged"))
                found["SDK, one weight nudged"] = run_sdk(Embedder(nudged), task)
            print_agreement(precision, found, found["Python"])


def print_agreement(precision: Precision, found: Mapping[str, Result], reference: Result) -> None:
    """Print one table.

    Args:
        precision: of the bundles.
        found: results by the name of their runtime.
        reference: what they are compared with.
    """
    print(f"\n| {precision.value} | {' | '.join(found)} |")
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


def print_sizes(embedder: Embedder, folder: Path) -> None:
    """Export every kind of bundle and print what it weighs.

    Args:
        embedder: the model and its experts.
        folder: for the bundles.
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


def compare_with(reference: Result) -> Callable[[Result], list[tuple[str, str]]]:
    """Make the comparison of one run with another.

    Args:
        reference: what to compare with.

    Returns:
        A function from a run to (name, figure) pairs.
    """

    def compare(run: Result) -> list[tuple[str, str]]:
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
            ("cold start to first vector, ms, median", milliseconds(run.get("cold"))),
            ("the same, processor time, ms", milliseconds(run.get("busy"))),
            ("single query, ms, median", milliseconds(run.get("times"))),
            ("single image, ms, median", milliseconds(run.get("seen"))),
        ]

    return compare


def exchanged(ranked: NDArray[np.int64], reference: Result) -> float:
    """Measure how far apart documents lie that one side ranks in the top 10 and the other not.

    Args:
        ranked: int64 (n, 10), of the run.
        reference: what to compare with.

    Returns:
        Largest difference of the other's scores to its tenth score.
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


def milliseconds(times: Any) -> str:
    """Say the median.

    Args:
        times: of several runs; ``None`` where nothing was measured.

    Returns:
        It, or a dash.
    """
    return "-" if times is None else f"{np.median(times):.0f}"


if __name__ == "__main__":
    main()
