"""What visitors upload: hostile files are refused in words, and nothing is left behind."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from demo_kit import bomb_png, climbing_zip, functions, script_svg, zipped
from PIL import Image
from test_experts import write_pack

from omniembed.demo import uploads
from omniembed.errors import UploadError
from omniembed.experts import load_pack
from omniembed.models.model import Model


def refused(text: str) -> pytest.RaisesExc[UploadError]:
    return pytest.raises(UploadError, match=text)


def test_a_picture_is_read_and_made_smaller(tmp_path: Path) -> None:
    Image.new("RGBA", (3000, 1500), (255, 0, 0, 255)).save(tmp_path / "a.png")
    picture = uploads.read_picture(tmp_path / "a.png")
    assert picture.mode == "RGB"
    assert picture.size == (1024, 512)


def test_a_decompression_bomb_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    bomb = bomb_png(tmp_path / "bomb.png")
    assert bomb.stat().st_size < 1_000_000
    with refused("40 megapixels") as caught:
        uploads.read_picture(bomb)
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x89PNG\r\n\x1a\nbroken"])
def test_what_is_no_picture_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(UploadError) as caught:
        uploads.read_picture(tmp_path / "a.png")
    assert str(tmp_path) not in str(caught.value)


def test_an_svg_with_a_script_is_refused(tmp_path: Path) -> None:
    with refused("cannot be read as a picture"):
        uploads.read_picture(script_svg(tmp_path / "a.svg"))


def test_a_sketch_is_read() -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), "white").save(buffer, "PNG")
    uri = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    assert uploads.read_sketch(uri).size == (8, 8)


@pytest.mark.parametrize(
    "uri",
    [
        None,
        7,
        "file:///etc/passwd",
        "data:image/png;base64,###",
        "data:image/png;base64,aGVsbG8=",
        "data:image/svg+xml;base64,aGVsbG8=",
        "data:image/png;base64," + "A" * (uploads.MAX_SKETCH_BYTES + 4),
    ],
    ids=["none", "number", "file", "garbage", "words", "svg", "long"],
)
def test_what_is_no_sketch_is_refused(uri: object) -> None:
    with pytest.raises(UploadError):
        uploads.read_sketch(uri)


def test_a_sketch_that_is_a_bomb_is_refused(tmp_path: Path) -> None:
    data = bomb_png(tmp_path / "bomb.png").read_bytes()
    with refused("sketch|megapixels|pixels"):
        uploads.read_sketch(f"data:image/png;base64,{base64.b64encode(data).decode()}")


def test_a_pack_is_unpacked_flat(model: Model, tmp_path: Path) -> None:
    pack = write_pack(tmp_path / "brief", "brief")
    (pack / "extra.py").write_text("never unpacked")
    target = tmp_path / "out"
    target.mkdir()
    folder = uploads.unpack_pack(zipped(pack, tmp_path / "a.zip"), target)
    assert load_pack(folder, model.manifest).card.name == "brief"
    assert not list(target.rglob("*.py"))


def test_a_zip_that_climbs_out_writes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "c"
    target.mkdir(parents=True)
    with refused("outside itself"):
        uploads.unpack_pack(climbing_zip(tmp_path / "x.zip"), target)
    assert not list(tmp_path.rglob("*.txt"))
    assert not list(target.iterdir())


@pytest.mark.parametrize("name", ["/etc/card.json", "a\\..\\..\\card.json", "C:\\card.json"])
def test_absolute_names_are_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), "{}")
    with refused("outside itself"):
        uploads.unpack_pack(tmp_path / "x.zip", tmp_path)


def test_a_link_is_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("card.json")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with refused("link"):
        uploads.unpack_pack(tmp_path / "x.zip", tmp_path)


def test_a_zip_bomb_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("card.json", bytes(uploads.MAX_PACK_BYTES + 1))
    with refused("64 MB"):
        uploads.unpack_pack(tmp_path / "x.zip", tmp_path)


def test_a_zip_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("card.json", bytes(uploads.MAX_PACK_BYTES + 1))
    honest = (uploads.MAX_PACK_BYTES + 1).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(honest, (10).to_bytes(4, "little")))
    target = tmp_path / "out"
    target.mkdir()
    with pytest.raises(UploadError):
        uploads.unpack_pack(path, target)
    assert sum(file.stat().st_size for file in target.iterdir()) <= uploads.MAX_PACK_BYTES


def test_too_many_entries_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for number in range(uploads.MAX_PACK_ENTRIES + 1):
            archive.writestr(f"{number}.txt", "")
    with refused("entries"):
        uploads.unpack_pack(tmp_path / "x.zip", tmp_path)


def test_what_is_no_zip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"PK but no more")
    with refused("no zip archive"):
        uploads.unpack_pack(tmp_path / "x.zip", tmp_path)


def test_tools_are_read_from_every_form() -> None:
    assert [one.title for one in uploads.read_tools(functions("refund", "track"))] == [
        "refund",
        "track",
    ]
    served = {"tools": [{"name": "note", "description": "Writes.", "inputSchema": {}}]}
    assert [one.title for one in uploads.read_tools(json.dumps(served))] == ["note"]
    openapi = "openapi: 3.0.0\npaths:\n  /a:\n    get: {operationId: getA, summary: Gets a}\n"
    assert [one.title for one in uploads.read_tools(openapi)] == ["getA"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("  ", "Paste"),
        ("[1, 2", "No tools|not read"),
        ("hello", "No tools"),
        ("[" * 100_000, "No tools|not read"),
        ("x" * (uploads.MAX_TOOLS_CHARACTERS + 1), "limit"),
        (functions(*(f"tool_{n}" for n in range(uploads.MAX_TOOLS + 1))), "501 tools"),
    ],
    ids=["empty", "broken", "words", "deep", "long", "many"],
)
def test_other_texts_hold_no_tools(text: str, told: str) -> None:
    with refused(told):
        uploads.read_tools(text)


def test_pairs_are_checked_and_copied(tmp_path: Path) -> None:
    pairs = tmp_path / "in.jsonl"
    pairs.write_text(
        '{"query": "a", "positive": "b", "secret": 1}\n\n{"query":"c","positive":"d"}\n'
    )
    copy = uploads.copy_pairs(pairs, tmp_path)
    records = [json.loads(line) for line in copy.read_text().splitlines()]
    assert records == [{"query": "a", "positive": "b"}, {"query": "c", "positive": "d"}]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty"),
        ("no json", "Line 1"),
        ('{"query": "a"}', "Line 1 needs"),
        ('{"query": "a", "positive": "b"}\n[1]', "Line 2"),
        ('{"query": "a", "positive": "b", "image": "/etc/passwd"}', "picture by its path"),
        ('{"query": "a", "positive": "b"}\n' * (uploads.MAX_PAIRS + 1), "5,001 pairs"),
    ],
    ids=["empty", "words", "half", "list", "picture", "many"],
)
def test_other_files_hold_no_pairs(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "in.jsonl").write_text(text)
    with refused(told):
        uploads.copy_pairs(tmp_path / "in.jsonl", tmp_path)


def test_binary_pairs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(np.random.default_rng(0).bytes(4096))
    with refused("UTF-8"):
        uploads.copy_pairs(tmp_path / "in.jsonl", tmp_path)
