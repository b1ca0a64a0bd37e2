"""What to read, and how to cut it."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """Options of a scan.

    Attributes:
        respect_gitignore: pass over files that git ignores.
        include_hidden: read files and folders whose name starts with a dot.
        max_file_bytes: a larger text, code or tool file is an error.
        text_characters: longest passage. The text tower reads 256 word pieces, about 1,000
            characters of English.
        code_characters: longest piece of code, which has more word pieces a character.
        overlap_characters: how much of a passage the next one repeats, at most.
    """

    respect_gitignore: bool = True
    include_hidden: bool = False
    max_file_bytes: int = 20_000_000
    text_characters: int = 900
    code_characters: int = 600
    overlap_characters: int = 120

    def __post_init__(self) -> None:
        smallest = min(self.text_characters, self.code_characters)
        if smallest < 50 or not 0 <= self.overlap_characters <= smallest // 2:
            raise InputError(
                f"passages of {self.text_characters} and {self.code_characters} characters with "
                f"{self.overlap_characters} overlapping: give at least 50, and at most half of "
                "them as overlap"
            )
