"""User metadata as one string of tags, which filters can search with ``contains`` alone.

LanceDB's expression builder offers comparisons and ``contains``, and no function that looks into
lists or JSON. So every metadata value becomes a tag in one string column::

    ␟"year"=2003␟"year"#n11000000…␟"author.name"="Ann"␟

``␟`` is the unit separator, which JSON escapes and which therefore cannot occur within a tag.
``=`` tags carry canonical JSON, for equality; ``#`` tags carry bits that sort as the values do,
for ranges (a value is at least x when its bits begin with those of x, or with those of x up to a
0 and then a 1). Values match exactly: a tag is found with the separator on both sides.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from ..errors import InputError

SEPARATOR = "\x1f"
MAX_ORDERED_BYTES = 24
"""Texts are ordered by this many bytes of UTF-8; enough for dates, versions and names."""


def clean(text: str) -> str:
    r"""Make a string storable as UTF-8.

    Args:
        text: any string; one with lone surrogates comes from an undecodable file name.

    Returns:
        The string, with lone surrogates written out as ``\udcff``.
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def dump_metadata(metadata: Mapping[str, Any]) -> str:
    """Write metadata so that it can be read back as it was.

    Args:
        metadata: JSON values under string keys.

    Returns:
        A JSON object in ASCII.

    Raises:
        InputError: for a value or key that JSON cannot hold.
    """
    try:
        _check_keys(metadata)
        return json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"metadata must hold JSON values under string keys: {error}; "
            "write dates and paths as strings"
        ) from error


def _check_keys(value: object) -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"key {key!r} is not a string")
            _check_keys(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_keys(item)


def make_tags(metadata: Mapping[str, Any]) -> str:
    """Turn metadata into tags.

    Args:
        metadata: JSON values under string keys.

    Returns:
        The tags, with a separator before, between and after.
    """
    return SEPARATOR + "".join(tag + SEPARATOR for tag in _walk(metadata, ""))


def _walk(metadata: Mapping[str, Any], parent: str) -> Iterator[str]:
    for name, value in metadata.items():
        key = f"{parent}.{name}" if parent else name
        yield value_tag(key, value)
        if isinstance(value, Mapping):
            yield from _walk(value, key)
        elif isinstance(value, (list, tuple)):
            yield from (value_tag(key, item) for item in value)
        elif is_ordered(value):
            yield order_tag(key, value)


def is_ordered(value: object) -> TypeGuard[float | str]:
    """Tell whether a value can be compared by ``$lt`` and the like.

    Args:
        value: a metadata value.

    Returns:
        True for numbers and strings.
    """
    if isinstance(value, float):
        return not math.isnan(value)
    return isinstance(value, (int, str)) and not isinstance(value, bool)


def key_tag(key: str) -> str:
    """Begin the tag of a value.

    Args:
        key: of the metadata; levels joined by dots.

    Returns:
        What every value tag of this key begins with.
    """
    return f"{json.dumps(clean(key), ensure_ascii=False)}="


def value_tag(key: str, value: object) -> str:
    """Write the tag that a value has.

    Args:
        key: of the metadata; levels joined by dots.
        value: a JSON value. 1 and 1.0 are the same; ``True`` and 1 are not.

    Returns:
        The tag, without separators.
    """
    return key_tag(key) + canonical(value)


def canonical(value: object) -> str:
    """Write a JSON value in one way only.

    Args:
        value: a JSON value.

    Returns:
        JSON with sorted keys, no blanks, and whole numbers without a fraction.

    Raises:
        InputError: for a value that JSON cannot hold.
    """
    try:
        return json.dumps(
            _normal(value),
            ensure_ascii=False,
            allow_nan=False,
            sort_keys=True,
            separators=(",", ":"),
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{value!r} is not a JSON value: {error}") from error


def _normal(value: object) -> object:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, (list, tuple)):
        return [_normal(item) for item in value]
    if isinstance(value, Mapping):
        return {clean(key): _normal(item) for key, item in value.items()}
    return value


def order_prefix(key: str, value: float | str) -> str:
    """Begin the tag by which a value is ordered.

    Args:
        key: of the metadata; levels joined by dots.
        value: a number or a string; only its type counts.

    Returns:
        What the order tags of this key and type begin with.
    """
    return f"{json.dumps(clean(key), ensure_ascii=False)}#{'s' if isinstance(value, str) else 'n'}"


def order_tag(key: str, value: float | str) -> str:
    """Write the tag by which a value is ordered.

    Args:
        key: of the metadata; levels joined by dots.
        value: a number or a string.

    Returns:
        The tag, without separators.
    """
    return order_prefix(key, value) + order_bits(value)


def order_bits(value: float | str) -> str:
    """Write a value as bits that compare as the values do.

    Numbers are compared as float64 (whole numbers beyond 2^53 are rounded), strings by code
    point over their first ``MAX_ORDERED_BYTES`` bytes.

    Args:
        value: a number or a string.

    Returns:
        Ones and zeros.
    """
    if isinstance(value, str):
        data = clean(value).encode("utf-8")
        # The leading one tells a NUL byte from the end of the string.
        bits = "".join(f"1{byte:08b}" for byte in data[:MAX_ORDERED_BYTES])
        return bits + "1" if len(data) > MAX_ORDERED_BYTES else bits
    try:
        number = float(value) + 0.0  # -0.0 becomes 0.0
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    (bits_as_int,) = struct.unpack(">Q", struct.pack(">d", number))
    negative = bits_as_int >> 63
    return f"{bits_as_int ^ (2**64 - 1 if negative else 2**63):064b}"


def at_least(key: str, bound: float | str) -> list[str]:
    """List what the order tags of all values from ``bound`` on begin with.

    Args:
        key: of the metadata; levels joined by dots.
        bound: a number or a string.

    Returns:
        Beginnings of tags, without separators; a value is in range when it has one of them.
    """
    prefix, bits = order_prefix(key, bound), order_bits(bound).rstrip("0")
    larger = [bits[:place] + "1" for place, bit in enumerate(bits) if bit == "0"]
    return [prefix + beginning for beginning in [bits, *larger]]
