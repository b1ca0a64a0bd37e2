"""Cold starts and single queries of one web bundle in Chromium; a short part of edge.py.

For a quiet moment of the machine: python benchmarks/edge_start.py BUNDLE --chromium PATH
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from edge_runs import FLAGS, serve

CODE = """async () => {
    const start = performance.now();
    const { OmniEmbedEdge } = await import("/omniembed-edge.mjs");
    const edge = await OmniEmbedEdge.load();
    await edge.embedQueries(["limit the number of requests per second"]);
    const cold = performance.now() - start;
    const times = [];
    for (let at = 0; at < 40; at++) {
        const begin = performance.now();
        await edge.embedQueries([`how do I limit the number of requests per second ${at}`]);
        times.push(performance.now() - begin);
    }
    return [cold, times];
}"""


def main() -> None:
    """Print a line a start."""
    from playwright.sync_api import sync_playwright

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("bundle", type=Path)
    options.add_argument("--chromium", required=True, help="path of a Chromium")
    options.add_argument("--starts", type=int, default=3)
    arguments = options.parse_args()
    with serve(arguments.bundle) as address, sync_playwright() as playwright:
        for _ in range(arguments.starts):
            browser = playwright.chromium.launch(executable_path=arguments.chromium, args=[*FLAGS])
            page = browser.new_page()
            page.goto(f"{address}/bundle.json")
            cold, times = page.evaluate(CODE)
            print(f"first vector after {cold:.0f} ms; one query {np.median(times):.1f} ms, median")
            browser.close()


if __name__ == "__main__":
    main()
