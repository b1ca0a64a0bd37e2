"""From the schema of a tool to a call that only needs its values filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DEEPEST = 5
_ITEMS = {"string": "", "integer": 0, "number": 0, "boolean": False, "null": None}
_SCHEMA_KEYS = ("parameters", "inputSchema", "input_schema")


def skeleton(function: Mapping[str, Any]) -> dict[str, Any]:
    """Write a call of a tool.

    Args:
        function: with ``name`` and a JSON schema of its parameters.

    Returns:
        ``{"name": …, "arguments": {…}}`` with every required parameter, and all where none is
        required. A parameter holds its default, example or first allowed value where the schema
        names one, else an empty value of its type.
    """
    schema: Any = next((function[key] for key in _SCHEMA_KEYS if key in function), {})
    return {"name": str(function.get("name", "")), "arguments": _object(schema, _DEEPEST)}


def _object(schema: Any, depth: int) -> dict[str, Any]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or depth <= 0:
        return {}
    required = schema.get("required")
    names = [str(name) for name in required] if isinstance(required, list) else []
    wanted = [name for name in properties if name in names] or list(properties)
    return {str(name): _value(properties[name], depth - 1) for name in wanted}


def _value(schema: Any, depth: int) -> Any:
    if not isinstance(schema, Mapping):
        return ""
    for key in ("const", "default", "example"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        values = schema.get(key)
        if isinstance(values, list) and values:
            return values[0]
    return _empty(schema, depth)


def _empty(schema: Mapping[str, Any], depth: int) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if kind == "object" or "properties" in schema:
        return _object(schema, depth)
    if kind == "array":
        return [] if depth <= 0 else [_value(schema.get("items", {}), depth - 1)]
    if kind == "string" and schema.get("format"):
        return f"<{schema['format']}>"
    return _ITEMS.get(str(kind), "")
