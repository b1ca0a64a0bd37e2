"""Prose is cut on its structure; encodings and control characters do no harm."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniembed import Document
from omniembed.errors import EmptyInputError, IngestError, UnsupportedFileError
from omniembed.ingest import IngestOptions
from omniembed.ingest.passages import Section, cut
from omniembed.ingest.readers import read_file
from omniembed.types import Kind

OPTIONS = IngestOptions()


def read(tmp_path: Path, name: str, content: str | bytes) -> list[Document]:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_file(path, OPTIONS)


def test_markdown_is_cut_at_headings(tmp_path: Path) -> None:
    text = (
        "intro\n\n# One\n\nfirst\n\n## Sub\n\nsecond\n\n```\n# no heading\n```\n\n# Two\n\nthird\n"
    )
    documents = read(tmp_path, "a.md", text)
    assert [document.title for document in documents] == ["a", "One", "One > Sub", "Two"]
    assert "# no heading" in documents[2].text
    assert documents[3].start_line == 15
    assert documents[2].metadata["headings"] == ["One", "Sub"]
    assert [document.id.rpartition("#")[2] for document in documents] == ["0", "1", "2", "3"]


def test_a_long_run_of_blanks_is_read_at_once(tmp_path: Path) -> None:
    """A backtracking pattern took hours for this line."""
    (document,) = read(tmp_path, "a.md", "# a" + " " * 100_000 + "b\n")
    assert document.text.startswith("# a")


def test_front_matter_and_fences_hold_no_headings(tmp_path: Path) -> None:
    text = "---\ntitle: x\n---\nhello\n\n```\n# a\n```python\n# still\n```\n\n# B ##\n\nend\n"
    assert [document.title for document in read(tmp_path, "a.md", text)] == ["a", "B"]


def test_setext_headings(tmp_path: Path) -> None:
    documents = read(tmp_path, "a.md", "Title\n=====\n\ntext\n\nPart\n----\n\nmore\n")
    assert [document.title for document in documents] == ["Title", "Title > Part"]


def test_rst_titles(tmp_path: Path) -> None:
    documents = read(tmp_path, "a.rst", "Top\n===\n\na\n\nLow\n---\n\nb\n\nNext\n====\n\nc\n")
    assert [document.title for document in documents] == ["Top", "Top > Low", "Next"]


def test_html_without_scripts(tmp_path: Path) -> None:
    page = (
        "<html><head><title>T &amp; U</title><style>p{}</style></head><body><script>var x</script>"
        "<h1>Head <em>one</em></h1><p>Some <b>bold</b> words.</p><ul><li>a</li><li>b</li></ul>"
        "<!-- hidden --></body></html>"
    )
    documents = read(tmp_path, "a.html", page)
    text = "\n".join(document.text for document in documents)
    assert "Some bold words." in text
    assert "var x" not in text
    assert "hidden" not in text
    assert documents[-1].title == "Head one"


def pdf(*pages: str) -> bytes:
    """A minimal PDF with one line of text a page."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{3 + 2 * n} 0 R" for n in range(len(pages)))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>")
    font = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
    for n, page in enumerate(pages):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources {font} "
            f"/Contents {4 + 2 * n} 0 R >>"
        )
        stream = f"BT /F1 12 Tf 50 700 Td ({page}) Tj ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    out, offsets = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    out += f"trailer << /Root 1 0 R /Size {len(objects) + 1} >>\nstartxref\n{start}\n%%EOF"
    return out.encode("latin-1")


def test_pdf_pages(tmp_path: Path) -> None:
    documents = read(tmp_path, "a.pdf", pdf("The first page.", "The second page."))
    assert [document.metadata["page"] for document in documents] == [1, 2]
    assert "second" in documents[1].text


@pytest.mark.parametrize("content", [b"", b"%PDF-1.4 nonsense", pdf("x")[:200]])
def test_broken_pdf(content: bytes, tmp_path: Path) -> None:
    with pytest.raises((IngestError, EmptyInputError)):
        read(tmp_path, "a.pdf", content)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(encoding: str, tmp_path: Path) -> None:
    (document,) = read(tmp_path, "a.txt", "Grüße aus Köln".encode(encoding))
    assert document.text == "Grüße aus Köln"
    assert ("encoding" in document.metadata) == (not encoding.startswith("utf-8"))


def test_one_bad_byte_does_not_change_the_encoding(tmp_path: Path) -> None:
    text = "\u65e5\u672c\u8a9e" * 100
    (document, *_) = read(tmp_path, "a.txt", text.encode() + b"\xff")
    assert document.text.startswith("\u65e5\u672c")
    assert document.metadata["encoding"] == "utf-8, damaged"


def test_line_ends_and_control_characters(tmp_path: Path) -> None:
    (document,) = read(tmp_path, "a.txt", b"one\r\ntwo\rthree\x00\x07four")
    assert document.text.split() == ["one", "two", "three", "four"]
    assert document.end_line == 3


@pytest.mark.parametrize(
    "content", [b"\x7fELF\x02\x01\x01\x00\x00\xff\xfe", bytes(range(256)) * 40]
)
def test_binary_files_are_passed_over(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFileError):
        read(tmp_path, "program", content)


@pytest.mark.parametrize("content", ["", "  \n\n\t", "\x00"])
def test_empty_files_hold_nothing(content: str, tmp_path: Path) -> None:
    with pytest.raises((EmptyInputError, UnsupportedFileError)):
        read(tmp_path, "a.txt", content)


def test_a_file_above_the_limit_names_it(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x" * 200)
    with pytest.raises(IngestError, match=r"200 bytes.*100"):
        read_file(path, IngestOptions(max_file_bytes=100))


def test_images_are_named_in_words(tmp_path: Path) -> None:
    (document,) = read(tmp_path, "red_sports-car.png", b"")
    assert document.kind is Kind.IMAGE
    assert document.title == "red sports car"


def test_notebooks(tmp_path: Path) -> None:
    notebook = (
        '{"cells": [{"cell_type": "markdown", "source": ["# Load\\n", "the data"]},'
        '{"cell_type": "code", "source": "def load():\\n    return 1"}], "metadata": {}}'
    )
    text, code = read(tmp_path, "a.ipynb", notebook)
    assert (text.kind, code.kind, code.symbol) == (Kind.TEXT, Kind.CODE, "load")


WORDS = st.lists(st.text("abc .!?\u3002\u5317漢", max_size=300), max_size=30)


@settings(max_examples=150, deadline=None)
@given(WORDS)
def test_passages_are_bounded_and_lose_nothing(lines: list[str]) -> None:
    section = Section((), list(enumerate(lines, 1)))
    options = IngestOptions(text_characters=100, code_characters=100, overlap_characters=30)
    passages = list(cut(section, options))
    assert all(len(passage.text) <= 100 and passage.text.strip() for passage in passages)
    joined = "".join(passage.text for passage in passages)
    counted = {letter: joined.count(letter) for letter in "abc\u5317"}
    for letter, count in counted.items():
        assert count >= sum(line.count(letter) for line in lines)
    starts = [passage.start_line for passage in passages]
    assert starts == sorted(starts)
