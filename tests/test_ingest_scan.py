"""What a path, glob, record list or table gives, and what is passed over."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image

from omniembed import Document, Failure
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
        ("**/*.md", ["a.md", "x/y/gone.md"], ["a.txt", "x/a.mdx"]),
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
def test_what_is_not_there_is_named(source: str | Path) -> None:
    with pytest.raises(SourceNotFoundError):
        scan(source)


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
    assert found[5].image == Path("photo.png")
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


def test_tables() -> None:
    rows = {"id": ["a", "b"], "text": ["one", "two"], "score": [1.5, None]}
    frame = pd.DataFrame(rows)
    table = pa.table(rows)
    for source in (frame, table, table.to_batches()[0], table.to_reader()):
        found = documents(source)
        assert [(document.id, document.text) for document in found] == [("a", "one"), ("b", "two")]
        assert [dict(document.metadata) for document in found] == [{"score": 1.5}, {}]
    assert scan(frame).total == 2


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
