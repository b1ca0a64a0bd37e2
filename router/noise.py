"""Queries that no expert can help with: other languages, and no language at all.

The gate learns from them where to keep to the base. They are made here, from lists of common
words; none comes from a set that the gate is judged by.
"""

from __future__ import annotations

import string
from importlib import resources

import numpy as np

_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm", "1234567890")
_ALPHABET = string.ascii_letters + string.digits + string.punctuation
_UNSPACED = frozenset({"zh", "ja", "th"})


def foreign_words() -> dict[str, list[str]]:
    """Read the word lists.

    Returns:
        Common words by language code.
    """
    text = resources.files(__package__).joinpath("foreign.txt").read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {line[0]: line[1:] for line in lines}


def foreign_queries(count: int, seed: int = 0) -> list[str]:
    """Make word salad in other languages; some with a name or a number, as questions have.

    Args:
        count: number of queries.
        seed: of the draw.

    Returns:
        The queries, languages in turn.
    """
    random = np.random.default_rng(seed)
    words = foreign_words()
    codes = sorted(words)
    found = []
    for index in range(count):
        code = codes[index % len(codes)]
        picked = random.choice(words[code], int(random.integers(4, 15))).tolist()
        if random.random() < 0.5:
            name = _name(random)
            picked.insert(int(random.integers(len(picked))), name)
        joint = "" if code in _UNSPACED else " "
        found.append(joint.join(picked) + ("?" if random.random() < 0.7 else ""))
    return found


def random_strings(count: int, seed: int = 0) -> list[str]:
    """Make strings without meaning: random characters, keyboard mash, numbers, syllables.

    Args:
        count: number of strings.
        seed: of the draw.

    Returns:
        The strings.
    """
    random = np.random.default_rng([seed, 1])
    makers = (_characters, _mash, _numbers, _syllables, _letters)
    return [makers[index % len(makers)](random) for index in range(count)]


def _name(random: np.random.Generator) -> str:
    if random.random() < 0.4:
        return str(random.integers(1, 2030))
    return _syllables(random).split()[0].capitalize()


def _pick(random: np.random.Generator, letters: str, low: int, high: int) -> str:
    return "".join(random.choice(list(letters), int(random.integers(low, high))))


def _characters(random: np.random.Generator) -> str:
    letters = _ALPHABET if random.random() < 0.5 else string.ascii_lowercase
    parts = [_pick(random, letters, 2, 14) for _ in range(int(random.integers(1, 7)))]
    return " ".join(parts)


def _letters(random: np.random.Generator) -> str:
    letters = string.ascii_lowercase + string.digits * int(random.integers(2))
    text = _pick(random, letters + " " * int(random.integers(1, 6)), 4, 40)
    return " ".join(text.split()) or "q"


def _mash(random: np.random.Generator) -> str:
    rows = [str(random.choice(_KEYS)) for _ in range(int(random.integers(1, 5)))]
    return " ".join(_pick(random, row, 4, 12) for row in rows)


def _numbers(random: np.random.Generator) -> str:
    return " ".join(_pick(random, string.digits, 1, 8) for _ in range(int(random.integers(1, 9))))


def _syllables(random: np.random.Generator) -> str:
    def word() -> str:
        pairs = int(random.integers(2, 4))
        return "".join(
            str(random.choice(list("bcdfgklmnprstvz"))) + str(random.choice(list("aeiou")))
            for _ in range(pairs)
        )

    return " ".join(word() for _ in range(int(random.integers(1, 8))))
