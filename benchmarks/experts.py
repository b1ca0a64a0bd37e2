"""Every shipped expert against the base, set by set, on test splits.

python benchmarks/experts.py --data DATA [--cache DIR] [--limit 2000]
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median

from data import parser

from omniembed import Document, OmniEmbed
from omniembed.embedder import Embedder
from omniembed.experts import ExpertRegistry
from omniembed.experts.training.recipes import IMAGE, TESTS
from omniembed.experts.training.sources import Sources
from omniembed.models.model import Model
from omniembed.router.collect import Collector
from omniembed.router.table import UtilityTable

IMAGE_TESTS = (*(f"{name}/test" for name in IMAGE), "coco_mini/test")
CODE_BAR = ("conala/test", "mbpp/test", "nl2bash/test", "tldr_cmd/test", "pydoc_mined/test")


def print_tables(tables: Sequence[UtilityTable]) -> None:
    """Print nDCG@10 of the base, and what every expert adds, in points.

    Args:
        tables: one a split.
    """
    encoders = tables[0].encoders
    print(f"| split | queries | {' | '.join(encoders)} |")
    print("|" + "---|" * (len(encoders) + 2))
    for table in tables:
        means = 100 * table.ndcg.mean(axis=1)
        cells = [f"{means[0]:.1f}", *(f"{value - means[0]:+.2f}" for value in means[1:])]
        print(f"| {table.name} | {len(table)} | {' | '.join(cells)} |", flush=True)


def change_times(omni: OmniEmbed, pack: Path, repeats: int = 9) -> tuple[float, float]:
    """Time adding and removing an expert.

    Args:
        omni: without that expert.
        pack: its folder.
        repeats: runs.

    Returns:
        Median milliseconds of adding and of removing.
    """
    added, removed = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        card = omni.experts.add(pack)
        added.append(time.perf_counter() - start)
        start = time.perf_counter()
        omni.experts.remove(card.name)
        removed.append(time.perf_counter() - start)
    return 1000 * median(added), 1000 * median(removed)


def store_stays(pack: Path) -> bool:
    """Tell whether adding and removing an expert leaves a store's table alone.

    Args:
        pack: folder of an expert.

    Returns:
        True when the table's version and its answers are the same as before.
    """
    with tempfile.TemporaryDirectory() as folder:
        omni = OmniEmbed(store=f"{folder}/s.lance")
        omni.index([Document(f"note {number}", id=str(number)) for number in range(50)])
        before = omni.info().version, omni.search("note 7", expert="base")
        card = omni.experts.list()[0]
        omni.experts.remove(card.name)
        omni.experts.add(pack)
        return before == (omni.info().version, omni.search("note 7", expert="base"))


def main() -> None:
    """Print the table, the means behind the bars, and what a change of experts costs."""
    options = parser(__doc__)
    options.add_argument("--cache", type=Path, help="keeps document vectors between runs")
    options.add_argument("--limit", type=int, default=2000, help="queries of a split at most")
    options.add_argument("--model", default="mini")
    options.add_argument("--json", type=Path, help="write the means here as well")
    arguments = options.parse_args()
    model = Model.load(arguments.model)
    experts = tuple(
        card.name for card in ExpertRegistry(model.manifest, model.directory / "experts").list()
    )
    names = tuple(name for name in experts if name != "composed")
    with tempfile.TemporaryDirectory() as scratch:
        sources = Sources(arguments.data / "text_code_tool", arguments.data / "image")
        cache = arguments.cache or Path(scratch)
        collector = Collector(Embedder(model), sources, cache, names)
        tables = [collector.table(name, arguments.limit) for name in (*TESTS, *IMAGE_TESTS)]
    print_tables(tables)
    code = names.index("code") + 1
    by_name = {table.name: table for table in tables}
    gains = [by_name[name].gain[code - 1].mean() * 100 for name in CODE_BAR]
    print(f"code, mean gain over {len(CODE_BAR)} sets: {fmean(gains):+.2f}")
    omni = OmniEmbed(arguments.model)
    pack = omni.model.directory / "experts" / "code"
    omni.experts.remove("code")
    added, removed = change_times(omni, pack)
    print(f"adding an expert {added:.1f} ms, removing it {removed:.1f} ms (median of 9)")
    print(f"table version and answers unchanged: {store_stays(pack)}")
    if arguments.json:
        record = {
            table.name: dict(
                zip(table.encoders, table.ndcg.mean(axis=1).round(4).tolist(), strict=True)
            )
            for table in tables
        }
        arguments.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
