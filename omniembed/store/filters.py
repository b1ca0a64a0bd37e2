"""``where`` filters, compiled to LanceDB expressions.

Values never become part of an SQL string: they travel as literals of ``lancedb.expr``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from ..errors import FilterError, InputError
from ..types import Kind
from .tags import (
    MAX_ORDERED_BYTES,
    SEPARATOR,
    at_least,
    clean,
    is_ordered,
    key_tag,
    order_prefix,
    order_tag,
    value_tag,
)

if TYPE_CHECKING:
    from lancedb.expr import Expr

TEXT_FIELDS = ("id", "kind", "title", "uri", "language", "symbol")
NUMBER_FIELDS = ("start_line", "end_line")
METADATA = "metadata."

_SET_OPERATORS = ("$eq", "$ne", "$in", "$nin")
_NUMBER_OPERATORS = (*_SET_OPERATORS, "$gt", "$gte", "$lt", "$lte")
_TEXT_OPERATORS = (*_NUMBER_OPERATORS, "$prefix", "$contains")
_METADATA_OPERATORS = (*_NUMBER_OPERATORS, "$prefix", "$exists")
_MAX_DEPTH = 32
_MAX_CODE_POINT = 0x10FFFF


def compile_filter(
    where: Mapping[str, Any] | None, kinds: Collection[Kind] | None = None
) -> Expr | None:
    """Compile a filter.

    Fields are ``id``, ``kind``, ``title``, ``uri``, ``language``, ``symbol``, ``start_line``,
    ``end_line`` and ``metadata.<key>``, with further levels after dots. A bare value means
    ``$eq``; several fields or operators must all hold. ``$and`` and ``$or`` take a list of
    filters, ``$not`` takes one.

    All fields take ``$eq``, ``$ne``, ``$in``, ``$nin``, and all but ``kind`` take ``$gt``,
    ``$gte``, ``$lt``, ``$lte``. Text fields also take ``$prefix`` and ``$contains``, metadata
    ``$prefix`` and ``$exists``. A metadata list equals a value when one of its items does, and
    is not ordered; ``None`` stands for a missing value.

    Args:
        where: such as ``{"language": "python", "start_line": {"$gte": 10}}``.
        kinds: document kinds to keep; all when ``None``.

    Returns:
        The expression, or ``None`` when nothing is filtered out.

    Raises:
        FilterError: for an unknown field or operator, or a value of the wrong type.
    """
    parts = [] if not where else [_compile(where, 0)]
    if kinds is not None:
        parts.append(_compile({"kind": {"$in": list(kinds)}}, 0))
    return _all(parts) if parts else None


def isin(column: str, values: Iterable[str]) -> Expr:
    """Select rows by the values of a text column.

    Args:
        column: name of the column.
        values: wanted values; none selects no row.

    Returns:
        The expression.
    """
    from lancedb.expr import col, lit

    return col(column).isin([lit(clean(value)) for value in values])


def _compile(where: object, depth: int) -> Expr:
    if not isinstance(where, Mapping):
        raise FilterError(f"a filter must be a mapping of fields, not {where!r}")
    if depth > _MAX_DEPTH:
        raise FilterError(f"a filter may be nested {_MAX_DEPTH} levels deep, not more")
    return _all([_clause(name, value, depth) for name, value in where.items()])


def _clause(name: object, value: object, depth: int) -> Expr:
    if name == "$not":
        return ~_compile(value, depth + 1)
    if name in ("$and", "$or"):
        if not isinstance(value, (list, tuple)) or not value:
            raise FilterError(f"{name} takes a list of filters that is not empty, not {value!r}")
        parts = [_compile(part, depth + 1) for part in value]
        return _all(parts) if name == "$and" else _any(parts)
    compiler = _field(name)
    if not isinstance(value, Mapping):
        return compiler("$eq", value)
    if not value:
        raise FilterError(f"the condition on {name!r} is empty")
    return _all([compiler(operator, operand) for operator, operand in value.items()])


def _field(name: object) -> Callable[[str, object], Expr]:
    """Return what compiles an operator and its operand for a field."""
    if name in TEXT_FIELDS:
        return lambda operator, operand: _text(str(name), operator, operand)
    if name in NUMBER_FIELDS:
        return lambda operator, operand: _line(str(name), operator, operand)
    if isinstance(name, str) and name.startswith(METADATA) and len(name) > len(METADATA):
        key = name[len(METADATA) :]
        return lambda operator, operand: _metadata(key, operator, operand)
    known = ", ".join((*TEXT_FIELDS, *NUMBER_FIELDS, "metadata.<key>", "$and", "$or", "$not"))
    raise FilterError(f"unknown filter field {name!r}; known: {known}")


def _text(name: str, operator: str, operand: object) -> Expr:
    from lancedb.expr import col, lit

    _known(operator, _SET_OPERATORS if name == "kind" else _TEXT_OPERATORS, name)
    if operator in ("$ne", "$nin"):
        return ~_text(name, "$eq" if operator == "$ne" else "$in", operand)
    if operator == "$in":
        return isin(name, [_string(name, item) for item in _items(name, operand)])
    value = _string(name, operand)
    if operator == "$prefix":
        return _begins(name, value)
    if operator == "$contains":
        return col(name).contains(lit(value)) if value else lit(True)
    return _compare(name, operator, value)


def _string(name: str, value: object) -> str:
    """Read an operand of a text field; ``None`` is the empty text."""
    if name == "kind":
        try:
            return Kind.parse(value).value
        except InputError as error:
            raise FilterError(str(error)) from None
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FilterError(f"{name} is compared with a str, not {value!r}")
    return clean(value)


def _begins(name: str, prefix: str) -> Expr:
    """Select texts from the prefix up to the first text behind all that begin with it."""
    from lancedb.expr import col, lit

    start = col(name) >= lit(prefix)
    stem = prefix.rstrip(chr(_MAX_CODE_POINT))
    if not stem:
        return start
    following = ord(stem[-1]) + 1
    if 0xD800 <= following <= 0xDFFF:  # surrogates are no characters
        following = 0xE000
    return start & (col(name) < lit(stem[:-1] + chr(following)))


def _line(name: str, operator: str, operand: object) -> Expr:
    """Compile a condition on a line number; documents without one are stored with 0."""
    from lancedb.expr import col, lit

    _known(operator, _NUMBER_OPERATORS, name)
    if operator in ("$ne", "$nin"):
        return ~_line(name, "$eq" if operator == "$ne" else "$in", operand)
    if operator == "$in":
        return _any([_line(name, "$eq", item) for item in _items(name, operand)])
    if operator == "$eq" and operand is None:
        return col(name) == lit(0)
    if not is_ordered(operand) or isinstance(operand, str):
        raise FilterError(f"{name} is compared with a number, not {operand!r}")
    number = _clamped(operand)
    return _compare(name, operator, number) & (col(name) > lit(0))


def _clamped(number: float) -> float:
    """Keep whole numbers within what a 64-bit column can be compared with."""
    if isinstance(number, float) and math.isinf(number):
        return math.copysign(2.0**63, number)
    return max(min(number, 2**63 - 1), -(2**63))


def _compare(name: str, operator: str, value: float | str) -> Expr:
    from lancedb.expr import col, lit

    column, literal = col(name), lit(value)
    comparisons: dict[str, Callable[[], Expr]] = {
        "$eq": lambda: column == literal,
        "$gt": lambda: column > literal,
        "$gte": lambda: column >= literal,
        "$lt": lambda: column < literal,
        "$lte": lambda: column <= literal,
    }
    return comparisons[operator]()


def _metadata(key: str, operator: str, operand: object) -> Expr:
    _known(operator, _METADATA_OPERATORS, METADATA + key)
    if operator in ("$ne", "$nin"):
        return ~_metadata(key, "$eq" if operator == "$ne" else "$in", operand)
    if operator == "$in":
        return _any([_metadata(key, "$eq", item) for item in _items(METADATA + key, operand)])
    if operator == "$eq":
        equal = _tag(_value_tag(key, operand), whole=True)
        return equal if operand is not None else equal | ~_tag(key_tag(key))
    if operator == "$exists":
        if not isinstance(operand, bool):
            raise FilterError(f"$exists takes true or false, not {operand!r}")
        return _tag(key_tag(key)) if operand else ~_tag(key_tag(key))
    if operator == "$prefix":
        if not isinstance(operand, str):
            raise FilterError(f"$prefix takes a str, not {operand!r}")
        return _tag(_value_tag(key, operand)[:-1])  # without the closing quote
    return _range(key, operator, operand)


def _value_tag(key: str, value: object) -> str:
    try:
        return value_tag(key, value)
    except InputError as error:
        raise FilterError(str(error)) from None


def _range(key: str, operator: str, operand: object) -> Expr:
    if not is_ordered(operand):
        raise FilterError(f"{METADATA}{key} is ordered by numbers or strings, not by {operand!r}")
    if isinstance(operand, str) and len(clean(operand).encode()) > MAX_ORDERED_BYTES:
        raise FilterError(
            f"metadata strings are ordered by {MAX_ORDERED_BYTES} bytes; {operand!r} is longer"
        )
    from_bound = _any([_tag(beginning) for beginning in at_least(key, operand)])
    if operator == "$gte":
        return from_bound
    ordered = _tag(order_prefix(key, operand))
    if operator == "$lt":
        return ordered & ~from_bound
    equal = _tag(order_tag(key, operand), whole=True)
    return from_bound & ~equal if operator == "$gt" else (ordered & ~from_bound) | equal


def _tag(beginning: str, *, whole: bool = False) -> Expr:
    from lancedb.expr import col, lit

    end = SEPARATOR if whole else ""
    return col("tags").contains(lit(f"{SEPARATOR}{beginning}{end}"))


def _known(operator: object, known: tuple[str, ...], field: str) -> None:
    if operator not in known:
        raise FilterError(f"unknown operator {operator!r} on {field}; known: {', '.join(known)}")


def _items(field: str, operand: object) -> list[object]:
    if not isinstance(operand, (list, tuple, set, frozenset)):
        raise FilterError(f"$in and $nin on {field} take a list, not {operand!r}")
    return list(operand)


def _all(parts: list[Expr]) -> Expr:
    from lancedb.expr import lit

    return _balanced(parts, lambda a, b: a & b) if parts else lit(True)


def _any(parts: list[Expr]) -> Expr:
    from lancedb.expr import lit

    return _balanced(parts, lambda a, b: a | b) if parts else lit(False)


def _balanced(parts: list[Expr], join: Callable[[Expr, Expr], Expr]) -> Expr:
    """Join pairwise, so that a long list does not become a deep expression."""
    while len(parts) > 1:
        parts = [reduce(join, parts[start : start + 2]) for start in range(0, len(parts), 2)]
    return parts[0]
