"""Routing against everything it could be: the base, each expert, other gates, oracles.

python benchmarks/routing.py --data DATA --cache DIR [--limit 500]

Own pools: every set is searched in its own documents. The routed column is one pass of the graph
with the gate's own weights; the other gates are looked up in the utilities of forced experts, with
the threshold that the same rule chose for them on dev.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
from data import parser
from numpy.typing import NDArray
from suites import SUITE_A, SUITE_B

from omniembed.embedder import Embedder
from omniembed.experts.training.evaluate import evaluate
from omniembed.experts.training.sources import Sources
from omniembed.models.model import Model
from omniembed.router.alternatives import oracle
from omniembed.router.build import calibrated, gate_layers
from omniembed.router.candidates import all_gates
from omniembed.router.collect import Collector
from omniembed.router.decisions import MARGIN, CalibratedGate, outcome
from omniembed.router.library import TIE
from omniembed.router.study import collect_study
from omniembed.router.table import UtilityTable
from omniembed.types import Route

Choice = Mapping[str, NDArray[np.int64]]


def routed(collector: Collector, table: UtilityTable, limit: int) -> dict[str, NDArray[np.float32]]:
    """Run the graph with its own gate.

    Args:
        collector: knows the sets.
        table: utilities of the same queries.
        limit: as the table was made with.

    Returns:
        nDCG@10, confidence, and 1 for abstained, a query each.
    """
    labels, documents = collector.labelled(table.name, limit)
    encoded = collector.embedder.embed_queries(labels.texts)
    names = table.encoders
    return {
        "ndcg": evaluate(encoded.vectors, documents, labels).ndcg.astype(np.float32),
        "confidence": np.array([route.confidence for route in encoded.routes], np.float32),
        "abstained": np.array([route.abstained for route in encoded.routes], np.float32),
        "chosen": np.array([names.index(route.expert) for route in encoded.routes], np.float32),
        "best": np.array(
            [
                names.index(max(route.scores, key=route.scores.__getitem__))
                for route in encoded.routes
            ],
            np.float32,
        ),
    }


def _likeliest(route: Route) -> str:
    return max(route.scores, key=lambda name: route.scores[name])


def print_suite(
    title: str,
    tables: Sequence[UtilityTable],
    found: Mapping[str, Mapping[str, NDArray[np.float32]]],
) -> None:
    """Print one suite set by set, and its means.

    Args:
        title: of the suite.
        tables: utilities.
        found: what :func:`routed` returned, by split.
    """
    encoders = tables[0].encoders
    print(f"\n## {title}\n")
    heads = ["split", "n", *encoders, "dataset oracle", "instance oracle", "routed", "abstained"]
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    rows = []
    for table in tables:
        means = 100 * table.ndcg.mean(axis=1)
        own = found[table.name]
        row = [
            *means,
            means.max(),
            100 * table.ndcg.max(axis=0).mean(),
            100 * own["ndcg"].mean(),
            100 * own["abstained"].mean(),
        ]
        rows.append(row)
        print(f"| {table.name} | {len(table)} | " + " | ".join(f"{x:.1f}" for x in row) + " |")
    mean = np.mean(rows, axis=0)
    print("| **mean** | | " + " | ".join(f"{x:.2f}" for x in mean) + " |")
    gains = [found[table.name]["ndcg"] - table.ndcg[0] for table in tables]
    harmed = 100 * fmean(float((gain < -MARGIN).mean()) for gain in gains)
    helped = 100 * fmean(float((gain > MARGIN).mean()) for gain in gains)
    worst = min(tables, key=lambda one: float(found[one.name]["ndcg"].mean() - one.ndcg[0].mean()))
    least = 100 * float(found[worst.name]["ndcg"].mean() - worst.ndcg[0].mean())
    routed_mean, base_mean = mean[-2], mean[0]
    general = mean[list(encoders).index("general")]
    print(
        f"\nrouted - base {routed_mean - base_mean:+.2f}; routed - general "
        f"{routed_mean - general:+.2f}; routed - dataset oracle {routed_mean - mean[-4]:+.2f}; "
        f"harmed {harmed:.1f} %, helped {helped:.1f} %; worst set {worst.name} {least:+.2f}"
    )


def calibration_error(
    tables: Sequence[UtilityTable],
    found: Mapping[str, Mapping[str, NDArray[np.float32]]],
    bins: int = 10,
) -> float:
    """Measure the expected calibration error, sets weighing the same.

    Args:
        tables: utilities.
        found: what :func:`routed` returned, by split.
        bins: of equal mass.

    Returns:
        The error, over queries where the best expert and the base differ.
    """
    confidence, won, weight = [], [], []
    for table in tables:
        own = found[table.name]
        best = own["best"].astype(np.int64)
        gain = table.ndcg[best, np.arange(len(table))] - table.ndcg[0]
        told = np.abs(gain) > TIE
        if told.any():
            confidence.append(own["confidence"][told])
            won.append(gain[told] > 0)
            weight.append(np.full(told.sum(), 1 / told.sum()))
    c, w, share = (np.concatenate(parts) for parts in (confidence, won, weight))
    order = np.argsort(c, kind="stable")
    mass = np.cumsum(share[order]) / share.sum()
    place = np.minimum((mass * bins).astype(int), bins - 1)
    error = 0.0
    for one in range(bins):
        rows = order[place == one]
        if len(rows):
            total = share[rows].sum()
            error += abs((share[rows] * (c[rows] - w[rows])).sum()) / share.sum() if total else 0
    return float(error)


def print_gates(
    title: str, tables: Sequence[UtilityTable], gates: Sequence[CalibratedGate]
) -> None:
    """Print the gates side by side, by what forced experts are worth.

    Args:
        title: of the suite.
        tables: utilities.
        gates: each with the threshold that dev chose for it.
    """
    print(
        f"\n## gates, {title} (looked up)\n\n"
        "| gate | nDCG@10 | gain | harmed | helped | abstained |"
    )
    print("|---|---|---|---|---|---|")
    for gate in gates:
        choices = [gate.choose(table) for table in tables]
        found = [
            outcome(table, choice.encoder, choice.weight)
            for table, choice in zip(tables, choices, strict=True)
        ]
        print_row(gate.gate.name, found)
    print_row("instance oracle", [outcome(table, oracle(table)) for table in tables])


def print_row(name: str, found: Sequence[object]) -> None:
    """Print the mean of outcomes.

    Args:
        name: of the gate.
        found: outcomes, one a set.
    """
    cells = [
        100 * fmean(getattr(one, field) for one in found)
        for field in ("ndcg", "gain", "harmed", "helped", "abstained")
    ]
    print(f"| {name} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")


def stress(collector: Collector, data: Path, limit: int) -> None:
    """Print how often the gate abstains where no expert can help.

    Args:
        collector: knows the model.
        data: folder of the sets.
        limit: queries at most.
    """
    texts: dict[str, list[str]] = {}
    for language in ("de", "zh"):
        collection = collector.sources.read("xquad", f"test_{language}")
        texts[f"xquad {language}"] = list(collection.splits[f"test_{language}"].texts)
    random = np.random.default_rng(12345)
    letters = list("abcdefghijklmnopqrstuvwxyz0123456789 ")
    texts["random strings"] = [
        "".join(random.choice(letters, int(random.integers(5, 40)))).strip() or "q"
        for _ in range(500)
    ]
    with gzip.open(data / "text_code_tool/clinc150/oos_queries.jsonl.gz", "rt") as stream:
        texts["clinc150 out of scope"] = [json.loads(line)["text"] for line in stream]
    print("\n## abstention where no expert should help\n")
    for name, queries in texts.items():
        routes = collector.embedder.embed_queries(queries[:limit]).routes
        print(f"{name}: {100 * fmean(route.abstained for route in routes):.1f} % of {len(routes)}")


def main() -> None:
    """Print everything."""
    options = parser(__doc__)
    options.add_argument("--cache", type=Path, required=True, help="vectors and utilities")
    options.add_argument("--limit", type=int, default=500, help="queries of a split at most")
    options.add_argument("--model", default="mini")
    arguments = options.parse_args()
    model = Model.load(arguments.model)
    embedder = Embedder(model)
    packs = embedder.experts.state.packs
    names = tuple(name for name, pack in packs.items() if pack.composed is None)
    sources = Sources(arguments.data / "text_code_tool", arguments.data / "image")
    collector = Collector(embedder, sources, arguments.cache, names)
    suites = {
        "suite A, own pools": [collector.table(name, arguments.limit) for name in SUITE_A],
        "suite B, own pools": [collector.table(name, arguments.limit) for name in SUITE_B],
    }
    for title, tables in suites.items():
        found = {table.name: routed(collector, table, arguments.limit) for table in tables}
        print_suite(title, tables, found)
        print(f"ECE {calibration_error(tables, found):.3f}")
    stress(collector, arguments.data, arguments.limit)
    study = collect_study(collector, arguments.limit)
    gates = [
        calibrated(gate, study)
        for gate in all_gates(study.lessons, packs, gate_layers(model.manifest))
    ]
    for title, tables in suites.items():
        print_gates(title, tables, gates)


if __name__ == "__main__":
    main()
