"""``omniembed demo`` as people start it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from omniembed.cli import app

PATIENCE = 90.0


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["demo", *arguments])
    return result.exit_code, " ".join(result.output.split())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_without_gradio_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omniembed.commands.demo.find_spec", lambda name: None)
    code, told = run()
    assert code == 1
    assert "pip install 'omniembed[demo]'" in told


def test_a_path_that_holds_nothing_is_told(tmp_path: Path) -> None:
    pytest.importorskip("gradio")
    code, told = run(str(tmp_path))
    assert code == 1
    assert "nothing that can be indexed" in told


@pytest.mark.skipif(os.name == "nt", reason="stops with a POSIX signal")
def test_the_command_serves_until_it_is_stopped(tmp_path: Path) -> None:
    pytest.importorskip("gradio")
    notes, uploads, port = tmp_path / "notes", tmp_path / "tmp", free_port()
    notes.mkdir()
    uploads.mkdir()
    (notes / "a.md").write_text("# Brakes\n\nSqueeze the lever.\n")
    environment = {**os.environ, "OMNIEMBED_HOME": str(tmp_path), "TMPDIR": str(uploads)}
    command = [sys.executable, "-m", "omniembed.cli", "demo", str(notes), "--port", str(port)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        url, begun, page = f"http://127.0.0.1:{port}/", time.monotonic(), ""
        try:
            while not page and process.poll() is None and time.monotonic() < begun + PATIENCE:
                try:
                    page = urllib.request.urlopen(url, timeout=PATIENCE).read().decode()
                except OSError:
                    time.sleep(0.1)
            assert "<title>omniembed</title>" in page or "omniembed" in page
            assert "cannot listen on" in run(str(notes), "--port", str(port))[1]
            process.send_signal(signal.SIGTERM)
            told, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 0
    assert f"open {url}" in told
    assert not list(uploads.glob("omniembed-*"))
