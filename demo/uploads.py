"""What visitors upload: checked before it is opened, and refused in words for people.

No message names a path of the host.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ..errors import ImageDecodeError, ImageError, ImageTooLargeError, OmniEmbedError, UploadError
from ..experts.installed import PACK_FILES
from ..ingest.data import parse_data
from ..ingest.tools import tools_in
from ..models.images import ImageLimits, load_rgb
from ..types import Document

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_UPLOAD_BYTES = 32 * 1024 * 1024
"""The server refuses larger files while they arrive."""

PICTURE = ImageLimits(max_pixels=40_000_000, max_bytes=20_000_000)
MAX_SKETCH_BYTES = 2_000_000
MAX_PACK_BYTES = 64_000_000
MAX_PACK_ENTRIES = 64
MAX_PAIRS = 5_000
MAX_PAIRS_BYTES = 8_000_000
MAX_TOOLS = 500
MAX_TOOLS_CHARACTERS = 2_000_000

_KEPT_SIDE = 1024
_SKETCH = "data:image/png;base64,"


def read_picture(path: str | Path) -> Image:
    """Read an uploaded picture.

    Args:
        path: where the server keeps it.

    Returns:
        An RGB picture of at most 1,024 pixels a side.

    Raises:
        UploadError: when it is too large, damaged, or in no format that is read (SVG is none).
    """
    file = Path(path)
    try:
        picture = load_rgb(file, limits=PICTURE)
    except ImageTooLargeError as error:
        raise UploadError(
            f"This picture is too large: {PICTURE.max_pixels // 1_000_000} megapixels and "
            f"{PICTURE.max_bytes // 1_000_000} MB are the limit. Scale it down."
        ) from error
    except ImageDecodeError as error:
        raise UploadError(
            "This file cannot be read as a picture. Use PNG, JPEG, WebP, GIF, BMP or TIFF."
        ) from error
    except ImageError as error:
        raise UploadError(str(error).replace(str(file), "the picture")) from error
    picture.thumbnail((_KEPT_SIDE, _KEPT_SIDE))
    return picture


def read_sketch(uri: object) -> Image:
    """Read what was drawn on the sketch pad.

    Args:
        uri: a PNG as a data URI.

    Returns:
        An RGB picture.

    Raises:
        UploadError: when it is none, or too large.
    """
    if not isinstance(uri, str) or not uri.startswith(_SKETCH):
        raise UploadError("The sketch did not arrive as a picture. Draw it again.")
    if len(uri) > MAX_SKETCH_BYTES:
        raise UploadError(f"The sketch is larger than {MAX_SKETCH_BYTES // 1_000_000} MB.")
    from PIL import Image as PILImage

    try:
        data = base64.b64decode(uri[len(_SKETCH) :], validate=True)
        picture = PILImage.open(io.BytesIO(data), formats=("PNG",))
        return load_rgb(picture, limits=ImageLimits(max_pixels=4_000_000))
    except (binascii.Error, OSError, ValueError, PILImage.DecompressionBombError) as error:
        raise UploadError("The sketch cannot be read as a picture. Draw it again.") from error


def unpack_pack(path: str | Path, folder: Path) -> Path:
    """Unpack an uploaded expert.

    Args:
        path: a zip file with the files of a pack at its top or in one folder.
        folder: empty; only the files of a pack are written to it, under fixed names.

    Returns:
        The folder.

    Raises:
        UploadError: for a file that is no zip, an entry that points outside, a link, or more than
            the limits allow; nothing was written that the archive names.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            wanted = _pack_entries(archive)
            left = MAX_PACK_BYTES
            for name, entry in wanted.items():
                left -= _copy(archive, entry, folder / name, left)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError) as error:
        raise UploadError(
            "This file is no zip archive that can be read. Zip the folder of the pack again, "
            "without a password."
        ) from error
    return folder


def read_text(path: Path) -> str:
    """Read an uploaded text file.

    Args:
        path: where the server keeps it.

    Returns:
        Its text.

    Raises:
        UploadError: when it is no UTF-8 text, or too long.
    """
    with path.open("rb") as stream:
        data = stream.read(4 * MAX_TOOLS_CHARACTERS + 1)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UploadError("This file is not UTF-8 text, or is too long.") from error
    if len(text) > MAX_TOOLS_CHARACTERS:
        raise UploadError(f"This file is longer than {MAX_TOOLS_CHARACTERS:,} characters.")
    return text


def read_tools(text: str) -> list[Document]:
    """Read pasted tool descriptions. References to other places are never fetched.

    Args:
        text: OpenAPI 3 as JSON or YAML, an MCP tool list, or function schemas.

    Returns:
        A document a tool, with its schema in the metadata.

    Raises:
        UploadError: when there is no tool in it, or more than the limits allow.
    """
    if not text.strip():
        raise UploadError("Paste an OpenAPI document, an MCP tool list or function schemas first.")
    if len(text) > MAX_TOOLS_CHARACTERS:
        raise UploadError(
            f"This has {len(text):,} characters; {MAX_TOOLS_CHARACTERS:,} are the limit."
        )
    try:
        data = parse_data(text, ".json")
        tools = tools_in(parse_data(text, ".yaml") if data is None else data)
    except (OmniEmbedError, RecursionError) as error:
        raise UploadError(f"This document is not read: {error}") from error
    if not tools:
        raise UploadError(
            "No tools were found in this. It should be OpenAPI 3 (JSON or YAML), the answer of "
            'an MCP server to tools/list, or a list of function schemas with "name" and '
            '"parameters".'
        )
    if len(tools) > MAX_TOOLS:
        raise UploadError(f"This describes {len(tools)} tools; {MAX_TOOLS} are the limit.")
    return tools


def copy_pairs(path: str | Path, folder: Path) -> Path:
    """Check uploaded training pairs and copy what training reads of them.

    Args:
        path: JSON Lines with ``query`` and ``positive``.
        folder: the copy is written there.

    Returns:
        The copy.

    Raises:
        UploadError: for another format, too many lines, or pictures by path, which would let a
            visitor read files of the host.
    """
    with open(path, "rb") as stream:
        data = stream.read(MAX_PAIRS_BYTES + 1)
    if len(data) > MAX_PAIRS_BYTES:
        raise UploadError(f"The pairs file is larger than {MAX_PAIRS_BYTES // 1_000_000} MB.")
    try:
        lines = [line for line in data.decode("utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise UploadError("The pairs file is not UTF-8 text. Upload JSON Lines.") from error
    if not lines:
        raise UploadError("The pairs file is empty.")
    if len(lines) > MAX_PAIRS:
        raise UploadError(f"The file has {len(lines):,} pairs; {MAX_PAIRS:,} are the limit here.")
    kept = [json.dumps(_pair(number, line)) + "\n" for number, line in enumerate(lines, 1)]
    target = folder / "pairs.jsonl"
    target.write_text("".join(kept), encoding="utf-8")
    return target


def _pair(number: int, line: str) -> dict[str, object]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UploadError(f"Line {number} of the pairs is no JSON.") from error
    if not isinstance(record, dict) or not {"query", "positive"} <= record.keys():
        raise UploadError(
            f'Line {number} needs "query" and "positive", as in '
            '{"query": "who signs off travel", "positive": "Legal approves trips."}'
        )
    if "image" in record:
        raise UploadError(
            f"Line {number} names a picture by its path. Uploaded pairs may hold texts only; "
            "train with pictures on the command line."
        )
    return {key: record[key] for key in ("query", "positive", "negatives") if key in record}


def _pack_entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Choose the files of a pack, and refuse an archive that looks like an attack."""
    entries = archive.infolist()
    if len(entries) > MAX_PACK_ENTRIES:
        raise UploadError(
            f"The archive holds {len(entries)} entries; a pack has {len(PACK_FILES)} files, and "
            f"{MAX_PACK_ENTRIES} are the limit."
        )
    if sum(entry.file_size for entry in entries) > MAX_PACK_BYTES:
        raise UploadError(
            f"The archive unpacks to more than {MAX_PACK_BYTES // 1_000_000} MB, the limit."
        )
    found: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        place = PurePosixPath(entry.filename.replace("\\", "/"))
        if place.is_absolute() or ".." in place.parts or ":" in entry.filename:
            raise UploadError("The archive names files outside itself. It was not unpacked.")
        if (entry.external_attr >> 16) & 0o170000 == 0o120000:
            raise UploadError("The archive holds a link. Zip the files themselves.")
        if entry.is_dir() or place.name not in PACK_FILES:
            continue
        if place.name in found:
            raise UploadError("The archive holds several packs. Upload one at a time.")
        found[place.name] = entry
    if not found:
        raise UploadError(f"The archive holds no expert pack: it has no {PACK_FILES[0]}.")
    return found


def _copy(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path, limit: int) -> int:
    """Unpack one file; its declared size may lie."""
    written = 0
    with archive.open(entry) as source, target.open("wb") as sink:
        while chunk := source.read(1 << 20):
            written += len(chunk)
            if written > limit:
                raise UploadError(
                    f"The archive unpacks to more than {MAX_PACK_BYTES // 1_000_000} MB, the limit."
                )
            sink.write(chunk)
    return written
