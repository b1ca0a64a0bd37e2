"""Index a real project of at least 1,000 files, then index it again.

python benchmarks/reindex.py [FOLDER]   (site-packages of this interpreter by default)
"""

from __future__ import annotations

import argparse
import shutil
import sysconfig
import tempfile
from pathlib import Path

from omniembed import OmniEmbed


def main() -> None:
    """Print both runs and their ratio."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", nargs="?", type=Path, default=sysconfig.get_paths()["purelib"])
    options.add_argument("--files", type=int, default=1000, help="number of .py files to take")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "project"
        sources = sorted(Path(arguments.folder).rglob("*.py"), key=lambda path: path.stat().st_size)
        small = [path for path in sources if path.stat().st_size > 0][: arguments.files]
        for source in small:
            target = project / source.relative_to(arguments.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        omni = OmniEmbed(store=Path(scratch) / "store.lance")
        first = omni.index(project)
        second = omni.index(project)
        print(f"files: {len(small)}")
        print(f"first:  {first.added} added, {len(first.failed)} failed, {first.seconds:.1f} s")
        print(
            f"second: {second.added + second.updated} embedded, {second.unchanged} unchanged, "
            f"{second.seconds:.2f} s = {second.seconds / first.seconds:.1%} of the first"
        )


if __name__ == "__main__":
    main()
