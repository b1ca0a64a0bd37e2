"""Tool descriptions: OpenAPI 3, MCP tool lists, function schemas, Python callables."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ..types import Document, Kind
from .schema import parameter_lines, resolve

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema")


def tools_in(data: object) -> list[Document] | None:
    """Recognise tool descriptions by their content.

    Args:
        data: a parsed JSON or YAML document.

    Returns:
        A document each, or ``None`` where the data describes no tools.
    """
    if isinstance(data, Mapping):
        if str(data.get("openapi", "")).startswith("3") and isinstance(data.get("paths"), Mapping):
            return list(_openapi(data))
        if isinstance(data.get("result"), Mapping):
            return tools_in(data["result"])
        if isinstance(data.get("tools"), list):
            return _tool_list(data["tools"], at_least=1)
        return _tool_list([data], at_least=1)
    if not isinstance(data, list):
        return None
    # A list that is not announced as one of tools must mostly look like one.
    return _tool_list(data, at_least=max(1, len(data) // 2 + 1))


def _tool_list(entries: Sequence[object], *, at_least: int) -> list[Document] | None:
    """Read tools; beside recognised ones, an entry of another form counts if it has a name."""
    recognised = sum(_function(entry) is not None for entry in entries)
    if recognised < at_least:
        return None
    named = [
        entry
        for entry in entries
        if (isinstance(entry, Mapping) and isinstance(entry.get("name"), str) and entry["name"])
        or _function(entry) is not None
    ]
    return [tool_document(_function(entry) or entry) for entry in named]  # type: ignore[arg-type]


def tool_document(function: Mapping[str, Any], **metadata: object) -> Document:
    """Render one tool.

    Args:
        function: with ``name``, and ``description`` and a JSON schema of its parameters if any.
        **metadata: kept beside the schema.

    Returns:
        A document: the name as title; name in words, description and parameters as text.
    """
    name = str(function["name"])
    schema = next((function[key] for key in _SCHEMA_KEYS if key in function), None)
    description = str(function.get("description") or "").strip()
    words = readable(name)
    lead = ": ".join(part for part in (words if words != name else "", description) if part)
    lines = [lead] if lead else []
    if isinstance(schema, Mapping):
        lines += parameter_lines(schema)
    return Document(
        text="\n".join(lines) or name,
        kind=Kind.TOOL,
        title=name,
        symbol=name,
        metadata={**metadata, "schema": _storable(function)},
    )


def _storable(schema: Mapping[str, Any]) -> Any:
    """Copy a schema as plain JSON: dates and other odd values as text."""
    return json.loads(json.dumps(schema, default=str), parse_constant=str)


def callable_document(function: Callable[..., object]) -> Document:
    """Describe a Python callable by its signature and docstring.

    Args:
        function: any callable with a name.

    Returns:
        The document.
    """
    inner = function
    while isinstance(inner, partial):
        inner = inner.func
    name = getattr(inner, "__name__", type(inner).__name__)
    parameters = _parameters(function)
    properties = {p.name: {"type": _annotation(p.annotation)} for p in parameters}
    required = [p.name for p in parameters if p.default is inspect.Parameter.empty]
    schema = {"type": "object", "properties": properties, "required": required}
    module = getattr(inner, "__module__", "") or ""
    return tool_document(
        {"name": name, "description": inspect.getdoc(inner) or "", "parameters": schema},
        module=module,
    )


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    """List the parameters that a caller names: without self, ``*args`` and ``**kwargs``."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
    if found and found[0].name in {"self", "cls"}:
        found = found[1:]
    return [p for p in found if p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}]


def readable(name: str) -> str:
    """Split an identifier into words.

    Args:
        name: in camel, snake or kebab case.

    Returns:
        Lower-case words.
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return " ".join(re.split(r"[\s_\-./]+", spaced)).strip().lower()


def _function(entry: object) -> Mapping[str, Any] | None:
    """Unwrap ``{"type": "function", "function": {…}}``; require a name and a sign of a tool."""
    if not isinstance(entry, Mapping):
        return None
    inner = entry.get("function") if entry.get("type") == "function" else None
    function = inner if isinstance(inner, Mapping) else entry
    if not isinstance(function.get("name"), str) or not function["name"].strip():
        return None
    has_schema = any(isinstance(function.get(key), Mapping) for key in _SCHEMA_KEYS)
    return function if has_schema or entry.get("type") == "function" else None


def _openapi(root: Mapping[str, Any]) -> Iterator[Document]:
    for path, item in root["paths"].items():
        item = resolve(item, root)
        if not isinstance(item, Mapping):
            continue
        for method in _METHODS:
            operation = item.get(method)
            if isinstance(operation, Mapping):
                yield _operation(root, str(path), method, item, operation)


def _operation(
    root: Mapping[str, Any],
    path: str,
    method: str,
    item: Mapping[str, Any],
    operation: Mapping[str, Any],
) -> Document:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for raw in (*_list(item.get("parameters")), *_list(operation.get("parameters"))):
        parameter = resolve(raw, root)
        if not isinstance(parameter, Mapping) or "name" not in parameter:
            continue
        name = str(parameter["name"])
        schema = resolve(parameter.get("schema"), root)
        # OpenAPI 3.1 allows true and false for a schema.
        details = schema if isinstance(schema, Mapping) else {}
        description = parameter.get("description") or details.get("description", "")
        properties[name] = {**details, "description": description}
        if parameter.get("required"):
            required.append(name)
    body = _body(root, operation)
    properties.update(body["properties"] if body else {})
    required += [str(name) for name in _list(body.get("required"))]
    parts = (operation.get("summary"), operation.get("description"))
    described = ". ".join(str(part).strip().rstrip(".") for part in parts if part)
    function = {
        "name": str(operation.get("operationId") or f"{method.upper()} {path}"),
        "description": f"{described}." if described else "",
        "parameters": {"type": "object", "properties": properties, "required": required},
    }
    return tool_document(function, method=method.upper(), path=path)


def _body(root: Mapping[str, Any], operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Find the schema of a request body."""
    body = resolve(operation.get("requestBody", {}), root)
    content = body.get("content", {}) if isinstance(body, Mapping) else {}
    for media in content.values() if isinstance(content, Mapping) else ():
        schema = resolve(media.get("schema"), root) if isinstance(media, Mapping) else None
        if isinstance(schema, Mapping) and isinstance(schema.get("items"), Mapping):
            schema = schema["items"]
        if isinstance(schema, Mapping) and isinstance(schema.get("properties"), Mapping):
            return schema
    return {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _annotation(annotation: object) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    if isinstance(annotation, str):
        return annotation
    return annotation.__name__ if type(annotation) is type else str(annotation)
