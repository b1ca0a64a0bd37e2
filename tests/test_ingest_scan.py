"""What a path, glob, record list or table gives, and what is passed over."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image

from omniembed import Document, Failure, OmniEmbed
from omniembed.errors import InputTypeError, SourceNotFoundError
from omniembed.ingest import IngestOptions, Source, scan
from omniembed.types import Kind


def names(source: object, root: Path, **options: bool) -> list[str]:
    found = scan(source, IngestOptions(**options)).sources
    return [os.path.relpath(item.uri, root) for item in found if isinstance(item, Source)]


def touch(root: Path, *files: str) -> None:
    for file in files:
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {file}")


def documents(source: object) -> list[Document]:
    return [
        document
        for item in scan(source).sources
        if isinstance(item, Source)
        for document in item.read()
    ]


def failures(source: object) -> list[Failure]:
    return [item for item in scan(source).sources if isinstance(item, Failure)]


def test_hidden_and_generated_files_are_passed_over(tmp_path: Path) -> None:
    touch(tmp_path, "b.md", "a.py", ".env", ".github/x.md", "node_modules/y.js", "__pycache__/z.py")
    touch(tmp_path, "env/pyvenv.cfg", "env/lib.py", "s.lance/data.txt", "any/documents.lance/1.txt")
    assert names(tmp_path, tmp_path) == ["a.py", "b.md"]
    assert ".env" in names(tmp_path, tmp_path, include_hidden=True)
    assert names(tmp_path / ".github", tmp_path) == [".github/x.md"]


def test_gitignore_as_git_reads_it(tmp_path: Path) -> None:
    touch(tmp_path, "a.log", "keep.log", "out/x.md", "src/out/y.md", "src/z.tmp", "src/sub/z.tmp")
    (tmp_path / ".gitignore").write_text("*.log\n!keep.log\n/out/\n[bad\n")
    (tmp_path / "src" / ".gitignore").write_text("*.tmp\n")
    (tmp_path / "src" / "sub" / ".gitignore").write_text("!z.tmp\n")
    assert names(tmp_path, tmp_path) == ["keep.log", "src/out/y.md", "src/sub/z.tmp"]
    everything = names(tmp_path, tmp_path, respect_gitignore=False)
    assert "a.log" in everything


LINES = (
    "*", "!*/", "!*.py", "*.log", "!keep.log", "/src", "!/src", "build/", "src/**", "!x.md",
    "**/build", "a/**/b", "src/*.md", "[ab]", "!a", "x?md", "\\!odd", "# note", "build", "!/a/b/",
)  # fmt: skip
FILES = (
    "x.md", "a.log", "keep.log", "b.py", "src/x.md", "src/a.py", "src/build/gen.py", "build/y.py",
    "a/b/z.md", "a/q/b/z.md", "!odd", "b/y.txt", "src/deep/x.md",
)  # fmt: skip


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git")
@pytest.mark.parametrize("seed", range(40))
def test_ignoring_is_what_git_does(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    touch(tmp_path, *FILES)
    for folder in ("", "src", "a"):
        if not folder or chance.random() < 0.5:
            lines = chance.choices(LINES, k=chance.randint(1, 4))
            (tmp_path / folder / ".gitignore").write_text("\n".join(lines) + "\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    listed = subprocess.run(
        ["git", "-C", str(tmp_path), "ls-files", "-z", "-o", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    expected = {name for name in listed if name and not name.endswith(".gitignore")}
    assert set(names(tmp_path, tmp_path)) == expected


def test_rules_above_the_folder_count_inside_a_repository(tmp_path: Path) -> None:
    touch(tmp_path, "sub/a.md", "sub/a.log")
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert names(tmp_path / "sub", tmp_path) == ["sub/a.log", "sub/a.md"]
    (tmp_path / ".git").mkdir()
    assert names(tmp_path / "sub", tmp_path) == ["sub/a.md"]


def test_pointing_at_an_ignored_folder_reads_it(tmp_path: Path) -> None:
    touch(tmp_path, "build/a.md", ".git/HEAD")
    (tmp_path / ".gitignore").write_text("build/\n")
    assert names(tmp_path / "build", tmp_path) == ["build/a.md"]


def test_links(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.md"
    touch(root, "a.md", "sub/b.md")
    outside.write_text("secret")
    (root / "loop").symlink_to(root)
    (root / "alias.md").symlink_to(root / "a.md")
    (root / "leak.md").symlink_to(outside)
    (root / "dangling.md").symlink_to(root / "nowhere")
    assert names(root, root) == ["a.md", "alias.md", "sub/b.md"]
    assert {Path(failure.uri).name for failure in failures(root)} == {"leak.md", "dangling.md"}


def test_globs(tmp_path: Path) -> None:
    touch(tmp_path, "a.md", "docs/b.md", "docs/deep/c.md", "docs/d.txt", "odd name [1].md")
    assert names(str(tmp_path / "**" / "*.md"), tmp_path) == [
        "a.md",
        "odd name [1].md",
        "docs/b.md",
        "docs/deep/c.md",
    ]
    assert names(tmp_path / "docs" / "*.md", tmp_path) == ["docs/b.md"]
    assert names(str(tmp_path / "docs" / "*"), tmp_path) == [
        "docs/b.md",
        "docs/d.txt",
        "docs/deep/c.md",
    ]
    assert names(tmp_path / "odd name [1].md", tmp_path) == ["odd name [1].md"]


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("**/*.md", ["gone.md", "x/y/gone.md"], ["a.txt", "x/a.mdx"]),
        ("docs/*.md", ["docs/gone.md"], ["gone.md", "docs/x/gone.md", "docs/a.txt"]),
    ],
)
def test_a_glob_covers_what_it_would_match(
    pattern: str, inside: list[str], outside: list[str], tmp_path: Path
) -> None:
    touch(tmp_path, "a.md", "docs/b.md")
    scope = scan(str(tmp_path / pattern)).scope
    assert scope is not None
    assert all(scope((tmp_path / name).as_posix()) for name in inside)
    assert not any(scope((tmp_path / name).as_posix()) for name in outside)


def test_a_folder_covers_itself_and_nothing_beside_it(tmp_path: Path) -> None:
    touch(tmp_path, "a/x.md", "ab/y.md")
    scope = scan(tmp_path / "a").scope
    assert scope is not None
    assert scope((tmp_path / "a" / "gone.md").as_posix())
    assert not scope((tmp_path / "ab" / "y.md").as_posix())


@pytest.mark.parametrize("source", ["nowhere", "*.nothing", "", Path("nowhere/x.md")])
def test_what_is_not_there_is_named(source: str | Path, omni: OmniEmbed) -> None:
    with pytest.raises(SourceNotFoundError):
        omni.index(source)
    assert not omni.store.exists()


@pytest.mark.parametrize("pattern", ["g", "g/*.txt", "g/a.txt"])
def test_what_has_wholly_vanished_is_removed(pattern: str, tmp_path: Path, omni: OmniEmbed) -> None:
    touch(tmp_path, "g/a.txt", "other.txt")
    source = str(tmp_path / pattern)
    omni.index(tmp_path / "other.txt")
    assert omni.index(source).added == 1
    shutil.rmtree(tmp_path / "g")
    assert omni.index(source).removed == 1
    assert omni.store.count() == 1
    with pytest.raises(SourceNotFoundError):
        omni.index(source)


def test_a_folder_removes_only_files_that_are_gone(tmp_path: Path, omni: OmniEmbed) -> None:
    touch(tmp_path, "d/a.md", "d/build/x.md", "d/.hidden/y.md")
    (tmp_path / "d" / ".gitignore").write_text("build/\n")
    omni.index([{"id": str(tmp_path / "d" / "record"), "text": "a record"}])
    for source in ("d/build", "d/.hidden/*.md"):
        omni.index(str(tmp_path / source))
    for _ in range(2):
        report = omni.index(tmp_path / "d")
        assert report.removed == 0
    assert omni.store.count() == 4
    (tmp_path / "d" / "build" / "x.md").unlink()
    assert omni.index(tmp_path / "d").removed == 1


ROOT = hasattr(os, "getuid") and os.getuid() == 0


@pytest.mark.skipif(ROOT and shutil.which("setpriv") is None, reason="root may enter any folder")
@pytest.mark.parametrize("mode", [0o000, 0o444, 0o311])
def test_a_folder_without_permission_is_a_failure_and_the_rest_goes_on(
    mode: int, tmp_path: Path
) -> None:
    touch(tmp_path, "t/a.md", "t/locked/b.md")
    code = (
        "import sys\nfrom omniembed.ingest import scan\n"
        "print([type(found).__name__ for found in scan(sys.argv[1]).sources])\n"
        "print([type(found).__name__ for found in scan(sys.argv[1] + '/*/*.md').sources])\n"
    )
    rights = "-dac_override,-dac_read_search"
    drop = ["setpriv", "--inh-caps", rights, "--bounding-set", rights] if ROOT else []
    (tmp_path / "t" / "locked").chmod(mode)
    try:
        done = subprocess.run(
            [*drop, sys.executable, "-c", code, str(tmp_path / "t")],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        (tmp_path / "t" / "locked").chmod(0o755)
    first = done.stdout.split("\n")[0]
    assert first == "['Source', 'Failure']", done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("source", [3, None, b"bytes"])
def test_other_types_are_refused(source: object) -> None:
    with pytest.raises(InputTypeError):
        scan(source)


def test_digests_follow_the_content(tmp_path: Path) -> None:
    touch(tmp_path, "a.md")
    (first,) = scan(tmp_path).sources
    (again,) = scan(tmp_path).sources
    (tmp_path / "a.md").write_text("other")
    (changed,) = scan(tmp_path).sources
    assert isinstance(first, Source)
    assert isinstance(again, Source)
    assert isinstance(changed, Source)
    assert first.digest == again.digest != changed.digest


def test_records_of_every_form() -> None:
    picture = Image.new("RGB", (4, 4))
    found = documents(
        [
            {"_id": 7, "title": "T", "text": "x", "year": np.int64(1999), "gone": float("nan")},
            {"content": "body", "kind": "code", "language": "go", "metadata": {"a": 1}},
            Document(text="as is", id="mine"),
            "just text",
            picture,
            {"image": "photo.png", "text": "caption"},
            len,
        ]
    )
    assert [document.kind.value for document in found] == [
        "text", "code", "text", "text", "image", "image", "tool",
    ]  # fmt: skip
    assert found[0].id == "7"
    assert found[0].metadata == {"year": 1999}
    assert found[1].metadata == {"a": 1}
    assert found[5].image == Path("photo.png").absolute()
    assert len({document.id for document in found}) == len(found)


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"id": "a"},
        {"text": ""},
        {"text": 3},
        {"text": "x", "kind": "video"},
        {"text": "x", "start_line": "many"},
        {"text": "x", "metadata": 3},
        {"image": 3},
        3,
        None,
    ],
)
def test_a_bad_record_is_named_and_the_others_go_on(record: object) -> None:
    records = ["first", record, "third"]
    assert [document.text for document in documents(records)] == ["first", "third"]
    (failure,) = failures(records)
    assert failure.uri == "record 1"
    assert "record 1" in str(failure.error)


def test_paths_in_a_list_are_not_taken_for_texts(tmp_path: Path) -> None:
    touch(tmp_path, "a.md")
    (failure,) = failures([str(tmp_path / "a.md")])
    assert "once for each path" in str(failure.error)
    assert [document.text for document in documents(["and/or", "e.g. this"])] == [
        "and/or",
        "e.g. this",
    ]


def test_what_has_a_place_is_updated_in_place(tmp_path: Path, omni: OmniEmbed) -> None:
    page = {"uri": "http://localhost/1", "text": "first"}
    omni.index([page])
    assert omni.index([{**page, "text": "second"}]).updated == 1
    picture = tmp_path / "p.png"
    for color in ("red", "blue"):
        Image.new("RGB", (8, 8), color).save(picture)
        omni.index([picture])
    assert omni.store.count() == 2


def test_tables() -> None:
    rows = {"id": ["a", "b"], "text": ["one", "two"], "score": [1.5, None]}
    frame = pd.DataFrame(rows)
    table = pa.table(rows)
    for source in (frame, table, table.to_batches()[0], table.to_reader()):
        found = documents(source)
        assert [(document.id, document.text) for document in found] == [("a", "one"), ("b", "two")]
        assert [dict(document.metadata) for document in found] == [{"score": 1.5}, {}]
    assert scan(frame).total == 2


def test_tables_with_dates_decimals_and_lists() -> None:
    frame = pd.DataFrame(
        {
            "id": [1, 2],
            "text": ["a", "b"],
            "when": pd.to_datetime(["2020-05-01", None]),
            "tags": [np.array(["x", "y"]), None],
            "price": [Decimal("1.5"), None],
        }
    )
    assert [dict(document.metadata) for document in documents(frame)] == [
        {"when": "2020-05-01T00:00:00", "tags": ["x", "y"], "price": 1.5},
        {},
    ]
    day = pa.table({"text": ["a"], "day": pa.array([date(2020, 5, 1)])})
    assert documents(day)[0].metadata == {"day": "2020-05-01"}


def test_kinds_of_files(tmp_path: Path) -> None:
    touch(tmp_path, "a.md", "b.py", "Makefile", "LICENSE")
    (tmp_path / "run").write_text("#!/usr/bin/env python3\nprint(1)\n")
    (tmp_path / "c.png").write_bytes(b"x")
    kinds = {Path(document.uri).name: document.kind for document in documents(tmp_path)}
    assert kinds == {
        "a.md": Kind.TEXT,
        "b.py": Kind.CODE,
        "Makefile": Kind.CODE,
        "LICENSE": Kind.TEXT,
        "run": Kind.CODE,
        "c.png": Kind.IMAGE,
    }
