"""The Node and web targets: a module built from ``web/`` by npm, and the page.

The built files are not part of the package: they hold several MB of WebAssembly. They are built
once for each version of the sources, with Node and npm, and kept.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

from ...errors import ExportError
from ...experts.installed import home

MODULE = "omniembed-edge.mjs"

SOURCE = Path(__file__).resolve().parent / "web"
_PACKAGE = {
    "name": "omniembed-edge-bundle",
    "version": "0.1.0",
    "private": True,
    "license": "Apache-2.0",
    "type": "module",
    "exports": {".": {"types": "./types/index.d.ts", "default": f"./{MODULE}"}},
}


def add_runtime(folder: Path, *, page: bool) -> None:
    """Copy module, types and, for the web, the page.

    Args:
        folder: of the bundle.
        page: whether to add the page.

    Raises:
        ExportError: when the module cannot be built.
    """
    built = build()
    for file in built.iterdir():
        if file.name == "types":
            shutil.copytree(file, folder / "types")
        elif file.is_file():
            shutil.copyfile(file, folder / file.name)
    if page:
        for file in (built / "page").iterdir():
            shutil.copyfile(file, folder / file.name)
    text = json.dumps(_PACKAGE, indent=2)
    (folder / "package.json").write_text(text + "\n", encoding="utf-8")


def build() -> Path:
    """Build the module, or find what was built from the same sources before.

    Returns:
        The folder of the built files.

    Raises:
        ExportError: when Node or npm is missing or the build fails.
    """
    sources = _sources()
    folder = home() / "edge" / _digest(sources)
    built = folder / "dist"
    if (built / MODULE).is_file():
        return built
    npm = shutil.which("npm")
    if npm is None:
        raise ExportError(
            "the node and web targets are built with npm, which is not installed; install "
            "Node 20 or newer, or use --target python"
        )
    shutil.rmtree(folder, ignore_errors=True)
    for file in sources:
        place = folder / file.relative_to(SOURCE)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    if (SOURCE / "node_modules").is_dir():  # a checkout in which somebody ran npm ci
        (folder / "node_modules").symlink_to(SOURCE / "node_modules")
    else:
        _run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
    _run([npm, "run", "build"], folder)
    modules = folder / "node_modules"
    if modules.is_symlink():
        modules.unlink()
    else:
        shutil.rmtree(modules)  # 200 MB that nothing needs any more
    return built


def _sources() -> list[Path]:
    files = [*SOURCE.glob("*.json"), *SOURCE.glob("*.mjs")]
    files += [*(SOURCE / "src").glob("*.ts"), *(SOURCE / "page").iterdir()]
    return sorted(files)


def _digest(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        name = file.relative_to(SOURCE).as_posix().encode()
        digest.update(len(name).to_bytes(4, "big") + name + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(folder / "dist", ignore_errors=True)
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise ExportError(
            f"{' '.join(command[1:])} failed in {folder}: {' '.join(lines[-3:])[:400]}; "
            "it needs Node 20 or newer and, the first time, the npm registry"
        )
