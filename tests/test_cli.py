"""The command line as a script and a person see it: output, JSON, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from omniembed.cli import app
from omniembed.sample import sample_directory

CAT = sample_directory() / "images" / "cat.webp"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.md").write_text("# Tides\n\nThe Moon makes the sea rise twice a day.\n")
    (folder / "sort.py").write_text("def sort_numbers(xs):\n    return sorted(xs)\n")
    (folder / "cat.webp").write_bytes(CAT.read_bytes())
    return folder


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def rows(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def store(project: Path, tmp_path: Path) -> Path:
    path = tmp_path / "store.lance"
    result = run("index", project, "--store", path)
    assert result.exit_code == 0, result.output
    return path


def test_index_reports_and_repeats(project: Path, store: Path) -> None:
    (report,) = rows(run("index", project, "--store", store, "--json"))
    assert report["unchanged"] == 3
    assert report["added"] == report["updated"] == report["removed"] == 0
    (project / "sort.py").unlink()
    (report,) = rows(run("index", project, "--store", store, "--json"))
    assert report["removed"] == 1


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["why does the sea rise?"], "text"),
        (["sort numbers", "--kind", "code"], "code"),
        (["--image", CAT], "image"),
        (["on a sofa", "--image", CAT], "image"),
        (["sort", "--where", "language=python"], "code"),
        (["tides", "--hybrid"], "text"),
    ],
)
def test_search_finds(arguments: list[str], kind: str, store: Path) -> None:
    hits = rows(run("search", *arguments, "--store", store, "--json"))
    assert hits[0]["kind"] == kind
    assert hits[0]["rank"] == 1
    table = run("search", *arguments, "--store", store)
    assert table.exit_code == 0
    assert kind in table.stdout


def test_code_is_located_by_line(store: Path) -> None:
    hit = rows(run("search", "sort numbers", "--kind", "code", "--store", store, "--json"))[0]
    assert str(hit["location"]).endswith("sort.py:1")
    assert hit["symbol"] == "sort_numbers"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["  "],
        ["text", "--top-k", "0"],
        ["text", "--expert", "nobody"],
        ["text", "--where", "language"],
        ["text", "--where", "colour=red"],
        ["--image", "missing.png"],
    ],
)
def test_wrong_calls_are_one_readable_line(arguments: list[str], store: Path) -> None:
    result = run("search", *arguments, "--store", store)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_usage_errors_exit_with_two(store: Path) -> None:
    assert run("search", "x", "--kind", "video", "--store", store).exit_code == 2
    assert run("search", "--nonsense").exit_code == 2


def test_a_missing_store_is_named(tmp_path: Path) -> None:
    for command in (["search", "x"], ["info"]):
        result = run(*command, "--store", tmp_path / "none.lance")
        assert result.exit_code == 1
        assert "none.lance" in result.stderr
    assert not (tmp_path / "none.lance").exists()


def test_a_missing_source_is_named(tmp_path: Path) -> None:
    result = run("index", tmp_path / "nowhere", "--store", tmp_path / "s.lance")
    assert result.exit_code == 1
    assert "nowhere" in result.stderr


def test_failed_sources_set_the_exit_code(project: Path, tmp_path: Path) -> None:
    (project / "broken.png").write_bytes(b"not a picture")
    result = run("index", project, "--store", tmp_path / "s.lance", "--json")
    assert result.exit_code == 3
    (report,) = rows(result)
    assert report["added"] == 3
    assert "broken.png" in str(report["failed"])


def test_info(store: Path) -> None:
    (info,) = rows(run("info", "--store", store, "--json"))
    assert info["rows"] == 3
    assert info["dim"] == 384
    assert run("info", "--store", store).exit_code == 0


def test_sample_shows_every_kind(tmp_path: Path) -> None:
    result = run("sample", "--store", tmp_path / "s.lance", "--json")
    assert result.exit_code == 0, result.output
    first = [row["kind"] for row in rows(result) if row.get("rank") == 1]
    assert first == ["text", "code", "image", "tool"]


def test_output_survives_a_narrow_encoding(project: Path, tmp_path: Path) -> None:
    (project / "odd.md").write_text("# Ünïcode 🚀\n\n北京 is a city.\n", encoding="utf-8")
    code = "from omniembed.cli import main; main()"
    environment = {"PYTHONIOENCODING": "ascii", "PATH": "", "PYTHONUTF8": "0"}
    for arguments in (["index", str(project)], ["search", "city"], ["search", "city", "--json"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments, "--store", str(tmp_path / "s.lance")],
            capture_output=True,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr
