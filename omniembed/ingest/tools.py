"""Tool descriptions: OpenAPI 3, MCP tool lists, function schemas, Python callables."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
        if isinstance(data.get("tools"), Sequence):
            return tools_in(data["tools"])
        return tools_in([data])
    if not isinstance(data, Sequence) or isinstance(data, str) or not data:
        return None
    functions = [_function(entry) for entry in data]
    if any(function is None for function in functions):
        return None
    return [tool_document(function) for function in functions if function is not None]


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
        metadata={**metadata, "schema": dict(function)},
    )


def callable_document(function: Callable[..., object]) -> Document:
    """Describe a Python callable by its signature and docstring.

    Args:
        function: any callable with a name.

    Returns:
        The document.
    """
    name = getattr(function, "__name__", type(function).__name__)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        parameters = {}  # type: ignore[assignment]
    properties = {
        key: {"type": _annotation(parameter.annotation)} for key, parameter in parameters.items()
    }
    required = [key for key, p in parameters.items() if p.default is inspect.Parameter.empty]
    schema = {"type": "object", "properties": properties, "required": required}
    module = getattr(function, "__module__", "") or ""
    return tool_document(
        {"name": name, "description": inspect.getdoc(function) or "", "parameters": schema},
        module=module,
    )


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
    described = isinstance(function.get("description"), str) and entry.get("type") == "function"
    return function if has_schema or described else None


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
        schema = resolve(parameter.get("schema", {}), root)
        properties[name] = {**schema, "description": parameter.get("description", "")}
        if parameter.get("required"):
            required.append(name)
    body = _body(root, operation)
    properties.update(body.get("properties", {}))
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
        schema = resolve(media.get("schema", {}), root) if isinstance(media, Mapping) else {}
        if isinstance(schema, Mapping) and isinstance(schema.get("properties"), Mapping):
            return schema
    return {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _annotation(annotation: object) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
