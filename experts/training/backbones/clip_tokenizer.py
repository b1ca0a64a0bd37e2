"""CLIP's tokenizer in the format of ``tokenizers``."""

from __future__ import annotations

import gzip
from typing import Any

from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
_START, _END = "<start_of_text>", "<end_of_text>"
_FULL_WIDTH = [(chr(code + 0xFEE0), chr(code)) for code in range(0x21, 0x7F)]
_REPAIRS = [
    ("[\u02bc\u2018-\u201b]", "'"),
    ("[\u201c-\u201f]", '"'),
    *{"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl"}.items(),
    *((found, wanted) for found, wanted in _FULL_WIDTH if wanted.isalnum()),
    *{"&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&amp;": "&"}.items(),
]
_MERGES = 49152 - 256 - 2 + 1


def clip_tokenizer() -> Tokenizer:
    """Build it from the vocabulary that ships with open_clip.

    It gives the ids of ``open_clip.SimpleTokenizer`` except on text that is broken: of what that
    one has ftfy and ``html.unescape`` repair, only curly quotes, ligatures, full-width letters
    and the five basic entities are.

    Returns:
        The tokenizer, with start and end token.
    """
    from open_clip.tokenizer import SimpleTokenizer, default_bpe

    known: Any = SimpleTokenizer()
    with gzip.open(default_bpe(), "rt", encoding="utf-8") as stream:
        lines = stream.read().split("\n")[1:_MERGES]
    merges = [(first, second) for first, second in (line.split() for line in lines)]
    tokenizer = Tokenizer(
        models.BPE(vocab=known.encoder, merges=merges, end_of_word_suffix="</w>", unk_token=_END)
    )
    repairs = [normalizers.Replace(Regex(found), wanted) for found, wanted in _REPAIRS]
    tokenizer.normalizer = normalizers.Sequence(
        [
            *repairs,
            normalizers.NFC(),
            normalizers.Replace(Regex(r"\s+"), " "),
            normalizers.Lowercase(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    start, end = known.encoder[_START], known.encoder[_END]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{_START} $A {_END}", special_tokens=[(_START, start), (_END, end)]
    )
    return tokenizer
