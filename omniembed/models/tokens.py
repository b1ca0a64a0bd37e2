"""Text to token ids, with truncation reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ModelError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as HFTokenizer

_CHARACTERS_PER_TOKEN = 64
"""No text of this many characters a token is read in full: words of that length do not exist."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """One tokenised text.

    Attributes:
        ids: token ids, special tokens included.
        empty: True when the text holds nothing that the model reads.
        truncated: True when the text was longer than the model reads.
    """

    ids: tuple[int, ...]
    empty: bool
    truncated: bool


class Tokenizer:
    """Reads texts for one model.

    Args:
        path: a ``tokenizer.json``.
        max_tokens: longest input, special tokens included.

    Raises:
        ModelError: when the file cannot be read or the limit makes no sense.
    """

    def __init__(self, path: Path, max_tokens: int) -> None:
        from tokenizers import Tokenizer as HFTokenizer

        if not 2 < max_tokens <= 1_000_000:
            raise ModelError(f"max_tokens must lie in 3..1000000, not {max_tokens}; see model.json")
        try:
            self._tokenizer: HFTokenizer = HFTokenizer.from_file(str(path))
        except Exception as error:
            raise ModelError(f"cannot read the tokenizer {path}: {error}") from error
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self.max_tokens = max_tokens

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise.

        Args:
            texts: any strings; what they hold decides nothing but the tokens.

        Returns:
            One entry a text, in order.
        """
        limit = self.max_tokens * _CHARACTERS_PER_TOKEN
        # Lone surrogates cannot be encoded; what they stood for is lost already.
        readable = [text.strip().encode("utf-8", "replace").decode("utf-8") for text in texts]
        encodings = self._tokenizer.encode_batch([text[:limit] for text in readable])
        return [
            Tokens(
                ids=tuple(encoding.ids),
                empty=sum(encoding.special_tokens_mask) == len(encoding.ids),
                truncated=bool(encoding.overflowing) or len(text) > limit,
            )
            for text, encoding in zip(readable, encodings, strict=True)
        ]
