"""From nothing to search results in a new environment: the README's first command, timed.

python benchmarks/install.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def size_mb(path: Path) -> float:
    """Measure a folder.

    Args:
        path: the folder.

    Returns:
        Megabytes of its files.
    """
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 1e6


def main() -> None:
    """Print times and sizes."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        before = size_mb(folder / "venv")
        python = folder / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", ROOT], check=True)
        installed = time.perf_counter()
        command = [folder / "venv" / "bin" / "omniembed", "sample", "--json"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        finished = time.perf_counter()
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        first = {row["query"]: row["kind"] for row in rows if row.get("rank") == 1}
        wheel = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder / "w", ROOT]
        subprocess.run(wheel, check=True)
        (built,) = (folder / "w").glob("*.whl")
        print(f"install: {installed - start:.0f} s; sample: {finished - installed:.1f} s")
        print(f"core install: {size_mb(folder / 'venv') - before:.0f} MB on disk")
        print(f"wheel: {built.stat().st_size / 1e6:.1f} MB")
        print(f"first hit of each query: {first}")


if __name__ == "__main__":
    main()
