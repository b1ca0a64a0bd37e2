"""The name that a definition gives to something, in any of the grammars."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

_SQL_CREATES = ("create_", "alter_")
_LONGEST = 200


def symbol_of(node: Node, source: bytes) -> str:
    """Name a definition.

    Args:
        node: a node of one of the grammar's definition types.
        source: the file's bytes.

    Returns:
        The name, such as ``Bucket`` or ``Bucket.take`` for a Go method; empty where the node
        defines nothing that has a name.
    """
    named = _named_node(node)
    if named is None:
        return ""
    name = _text(named, source)
    owner = _receiver(node, source)
    return f"{owner}.{name}" if owner else name


def _named_node(node: Node) -> Node | None:
    if node.type in {"lexical_declaration", "variable_declaration"}:
        return _assigned_function(node)
    if node.type == "assignment_expression":
        return node.child_by_field_name("left") if _makes_function(node, "right") else None
    if node.type == "statement":
        return _sql_object(node)
    if node.type == "impl_item":
        return node.child_by_field_name("type")
    if node.type == "type_declaration":
        specs = [child for child in node.named_children if child.type.startswith("type_")]
        return specs[0].child_by_field_name("name") if specs else None
    name = node.child_by_field_name("name")
    return name if name is not None else _declared(node)


def _declared(node: Node) -> Node | None:
    """Follow C declarators (pointers, functions, arrays) down to the identifier."""
    declarator = node.child_by_field_name("declarator")
    while declarator is not None:
        inner = declarator.child_by_field_name("declarator")
        if inner is None:
            references = [c for c in declarator.named_children if "declarator" in c.type]
            inner = (
                references[0] if declarator.type == "reference_declarator" and references else None
            )
        if inner is None:
            return declarator
        declarator = inner
    return None


def _assigned_function(node: Node) -> Node | None:
    """Take ``const f = () => …`` for a definition of ``f``; other variables are none."""
    for child in node.named_children:
        if _makes_function(child, "value"):
            return child.child_by_field_name("name")
    return None


def _makes_function(node: Node, field: str) -> bool:
    """Tell whether a field holds a function or class, or a call that wraps one."""
    value = node.child_by_field_name(field)
    if value is not None and value.type == "call_expression":
        arguments = value.child_by_field_name("arguments")
        inner = arguments.named_children[:1] if arguments is not None else []
        value = inner[0] if inner else None
    return value is not None and ("function" in value.type or value.type == "class")


def _sql_object(node: Node) -> Node | None:
    for child in node.named_children:
        if child.type.startswith(_SQL_CREATES):
            references = [c for c in child.named_children if c.type == "object_reference"]
            return references[0] if references else None
    return None


def _receiver(node: Node, source: bytes) -> str:
    """Name the type that a Go method belongs to."""
    receiver = node.child_by_field_name("receiver") if node.type == "method_declaration" else None
    if receiver is None:
        return ""
    for parameter in receiver.named_children:
        kind = parameter.child_by_field_name("type")
        if kind is not None:
            return _text(kind, source).lstrip("*").partition("[")[0].strip()
    return ""


def _text(node: Node, source: bytes) -> str:
    name = source[node.start_byte : node.end_byte].decode("utf-8", "replace")
    return " ".join(name.split())[:_LONGEST]
