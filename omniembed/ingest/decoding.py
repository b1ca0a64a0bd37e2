"""Bytes to text: encodings, line ends, control characters."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from ..errors import UnsupportedFileError

_SNIFFED = 8192
_MOST_CONTROLS = 0.1
_MOST_DAMAGE = 0.01
"""Share of bad characters up to which a file is damaged UTF-8 rather than another encoding."""
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = {code: " " for code in (*range(32), 127) if chr(code) not in "\t\n"}


@dataclass(frozen=True, slots=True)
class Decoded:
    """A text file.

    Attributes:
        text: with line feeds only, and control characters replaced by spaces.
        encoding: what it was decoded with.
    """

    text: str
    encoding: str


def decode(data: bytes, name: str) -> Decoded:
    """Decode a text file.

    Args:
        data: its bytes.
        name: of the file, for messages.

    Returns:
        The text. Files that are mostly UTF-8 are read as that, others as Windows-1252, which
        never fails.

    Raises:
        UnsupportedFileError: when the bytes are not text.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            try:
                return Decoded(clean_text(data.decode(encoding)), encoding)
            except UnicodeDecodeError as error:
                raise UnsupportedFileError(f"{name} is no valid {encoding}: {error}") from error
    try:
        text, encoding = data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        text, encoding = data.decode("utf-8", "replace"), "utf-8, damaged"
        if text.count("\ufffd") > len(text) * _MOST_DAMAGE:
            text, encoding = data.decode("cp1252", "replace"), "cp1252"
        if _looks_binary(data[:_SNIFFED]):
            raise UnsupportedFileError(f"{name} is a binary file of unknown format") from None
    if data.count(0) > len(data) * _MOST_CONTROLS:
        raise UnsupportedFileError(f"{name} is a binary file of unknown format")
    return Decoded(clean_text(text), encoding)


def _looks_binary(head: bytes) -> bool:
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in head)
    return 0 in head or controls > len(head) * _MOST_CONTROLS


def clean_text(text: str) -> str:
    """Bring line ends and control characters to one form.

    Args:
        text: any text.

    Returns:
        The text with line feeds only, other control characters replaced by spaces.
    """
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS)
