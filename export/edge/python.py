"""The Python target: a package of a few modules, copied into the bundle."""

from __future__ import annotations

import shutil
from pathlib import Path

PACKAGE = "omniembed_edge"
REQUIREMENTS = "numpy>=1.26\nonnxruntime>=1.20\ntokenizers>=0.20\npillow>=11\n"

_SOURCE = Path(__file__).parent / "runtime"


def add_runtime(folder: Path) -> None:
    """Copy the runtime.

    Args:
        folder: of the bundle.
    """
    package = folder / PACKAGE
    package.mkdir()
    for file in sorted(_SOURCE.glob("*.py")):
        shutil.copyfile(file, package / file.name)
    (folder / "requirements.txt").write_text(REQUIREMENTS, encoding="utf-8")
