"""Time of ``import omniembed`` and the heavy modules it loads (none).

python benchmarks/import_time.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys

HEAVY = ("torch", "transformers", "lancedb", "pandas", "gradio", "pyarrow", "onnxruntime")
RUNS = 5


def measure() -> tuple[float, list[str]]:
    """Import in a new interpreter.

    Returns:
        Seconds, and heavy modules loaded.
    """
    command = [sys.executable, "-X", "importtime", "-c", "import omniembed"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split("|") for line in done.stderr.splitlines() if line.startswith("import time:")]
    times = {row[2].strip(): row[1] for row in rows}
    loaded = [name for name in HEAVY if name in times]
    return int(times["omniembed"]) / 1e6, loaded


def main() -> None:
    """Print the median of several runs."""
    results = [measure() for _ in range(RUNS)]
    seconds = statistics.median(result[0] for result in results)
    print(f"import omniembed: {seconds:.3f} s (median of {RUNS}); heavy modules: {results[0][1]}")


if __name__ == "__main__":
    main()
