"""What importing costs, what runs offline, and that the public types are what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEAVY = {"torch", "transformers", "lancedb", "pandas", "gradio", "pyarrow", "onnxruntime", "PIL"}


def python(code: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        **kwargs,  # type: ignore[call-overload]
    )


def test_import_loads_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import omniembed"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {
        line.rpartition("|")[2].strip().partition(".")[0]
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    }
    assert "omniembed" in loaded
    assert not loaded & HEAVY


def test_everything_runs_without_a_network(tmp_path: Path) -> None:
    code = f"""
import socket
class Blocked(socket.socket):
    def connect(self, address):
        raise AssertionError(f"tried to connect to {{address}}")
socket.socket = Blocked
socket.getaddrinfo = None
from omniembed import OmniEmbed
from omniembed.sample import QUERIES, sample_directory
omni = OmniEmbed(store={str(tmp_path / "s.lance")!r})
report = omni.index(sample_directory())
assert report.added > 10 and not report.failed, report
print([omni.search(query)[0].document.kind.value for query in QUERIES])
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['text', 'code', 'image', 'tool']"
