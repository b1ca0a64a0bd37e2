"""A served page, hostile files, and what reads the page's answers."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

# gradio_client asks huggingface.co about itself; the tests stay on this machine.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

CHROMIUM = "OMNIEMBED_CHROMIUM"
"""Environment variable that names the browser of the tests."""

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-quic",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def served_sample() -> Iterator[str]:
    """Serve the bundled sample and give the address."""
    if find_spec("gradio") is None:
        pytest.skip("gradio is not installed")
    from omniembed.demo.gradio_import import import_gradio

    import_gradio()
    from omniembed.demo.library import open_library
    from omniembed.demo.serve import serving

    with serving(open_library(None)) as page:
        yield page.url


def chromium() -> str:
    """Find a browser, or skip."""
    named = os.environ.get(CHROMIUM)
    found = named or shutil.which("chromium") or shutil.which("chromium-browser")
    if found:
        return found
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        own = running.chromium.executable_path
    if not Path(own).exists():
        pytest.skip(f"no Chromium: install it, or name it in {CHROMIUM}")
    return str(own)


def bomb_png(path: Path, side: int = 20_000) -> Path:
    """A valid PNG of some kilobytes that unpacks to 400 megapixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    packer = zlib.compressobj(9)
    row = bytes(side // 8 + 1)
    rows = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + parts)
    return path


def script_svg(path: Path) -> Path:
    path.write_text('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')
    return path


def climbing_zip(path: Path) -> Path:
    """A zip whose entries lie above the folder that it is unpacked to."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("card.json", "{}")
        archive.writestr("../../../escaped.txt", "out")
    return path


def huge_file(path: Path, size: int = 200_000_000) -> Path:
    with path.open("wb") as stream:
        stream.truncate(size)
    return path


def zipped(pack: Path, target: Path) -> Path:
    """Zip a pack as people do: with its folder."""
    with zipfile.ZipFile(target, "w") as archive:
        for file in pack.iterdir():
            archive.write(file, f"{pack.name}/{file.name}")
    return target


def functions(*names: str) -> str:
    """Schemas of tools with these names."""
    schema = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    tools = [
        {"name": name, "description": f"Does the {name} of an order.", "parameters": schema}
        for name in names
    ]
    return json.dumps(tools)


def titles(html: str) -> list[str]:
    """Headings of the cards."""
    found = re.findall(r"<h4>(.*?)</h4>", html, re.DOTALL)
    return [re.sub(r"<.*?>.*", "", title, flags=re.DOTALL).strip() for title in found]


def places(html: str) -> list[str]:
    """Where the results lie, as shown."""
    return re.findall(r'<span class="oe-place" title="(.*?)"', html)
