"""JSON schemas as lines of text that a small text tower can read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_DEEPEST = 4
_MOST_LINES = 60
_MOST_VALUES = 12
_SURFACE = ("type", "description", "enum")


def resolve(node: Any, root: Mapping[str, Any]) -> Any:
    """Follow local references (``#/…``) and inline them.

    Args:
        node: part of a document.
        root: the document.

    Returns:
        The node without references at its surface and in its properties. Of a reference to
        itself only the type and description are kept; one to another file or to nothing becomes
        an empty mapping, and nothing is ever fetched.
    """
    return _resolve(node, root, frozenset(), _DEEPEST)


def _resolve(node: Any, root: Mapping[str, Any], seen: frozenset[str], depth: int) -> Any:
    if not isinstance(node, Mapping):
        return node
    reference = node.get("$ref")
    if isinstance(reference, str):
        target = _lookup(reference, root)
        if reference in seen or depth <= 0:
            return {key: target[key] for key in _SURFACE if key in target}
        return _resolve(target, root, seen | {reference}, depth - 1)
    merged = _merged(node, root, seen, depth)
    if isinstance(merged.get("properties"), Mapping) and depth > 0:
        merged["properties"] = {
            name: _resolve(value, root, seen, depth - 1)
            for name, value in merged["properties"].items()
        }
    if isinstance(merged.get("items"), Mapping) and depth > 0:
        merged["items"] = _resolve(merged["items"], root, seen, depth - 1)
    return merged


def _merged(
    node: Mapping[str, Any], root: Mapping[str, Any], seen: frozenset[str], depth: int
) -> dict[str, Any]:
    """Gather the properties of combined schemas; only ``allOf`` makes any of them required."""
    merged = dict(node)
    for key in ("allOf", "oneOf", "anyOf"):
        for part in node[key] if isinstance(node.get(key), list) and depth > 0 else ():
            inner = _resolve(part, root, seen, depth - 1)
            if not isinstance(inner, Mapping):
                continue
            properties = {**_mapping(merged, "properties"), **_mapping(inner, "properties")}
            required = [*_list(merged, "required")]
            if key == "allOf":
                required += _list(inner, "required")
            merged = {**inner, **merged}
            if properties:
                merged["properties"] = properties
            merged["required"] = required
    return merged


def _lookup(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    if not reference.startswith("#/"):
        return {}
    node: Any = root
    for step in reference[2:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        node = node.get(step) if isinstance(node, Mapping) else None
    return node if isinstance(node, Mapping) else {}


def parameter_lines(schema: Mapping[str, Any]) -> list[str]:
    """Render the properties of an object schema.

    Args:
        schema: a JSON schema of type object.

    Returns:
        A line each: name, type, whether it is required, description, allowed values.
    """
    lines = []
    for line in _lines(schema, "", _DEEPEST):
        lines.append(line)
        if len(lines) == _MOST_LINES:
            break
    return lines


def _lines(schema: Mapping[str, Any], prefix: str, depth: int) -> Iterator[str]:
    needed = schema.get("required")
    required = set(map(str, needed)) if isinstance(needed, list) else set()
    for name, value in _mapping(schema, "properties").items():
        full = f"{prefix}{name}"
        details = value if isinstance(value, Mapping) else {}
        notes = [_type(details), "required" if name in required else ""]
        note = ", ".join(part for part in notes if part)
        line = f"- {full} ({note})" if note else f"- {full}"
        description = " ".join(str(details.get("description") or "").split())
        if description:
            line += f": {description}"
        values = details.get("enum")
        if isinstance(values, list) and values:
            line += f" One of: {', '.join(map(str, values[:_MOST_VALUES]))}."
        yield line
        if depth > 1 and _mapping(details, "properties"):
            yield from _lines(details, f"{full}.", depth - 1)


def _type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    name = "/".join(map(str, kind)) if isinstance(kind, list) else str(kind or "")
    items = schema.get("items")
    if name == "array" and isinstance(items, Mapping) and items.get("type"):
        return f"array of {items['type']}"
    return name


def _mapping(node: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = node.get(key)
    return value if isinstance(value, Mapping) else {}


def _list(node: Mapping[str, Any], key: str) -> list[Any]:
    value = node.get(key)
    return value if isinstance(value, list) else []
