"""JSON and YAML, parsed so that hostile files cost no more than honest ones."""

from __future__ import annotations

import json
import re
from typing import Any

from ..errors import IngestError

_MAX_YAML_CHARACTERS = 5_000_000
_MAX_NODES = 200_000
"""Values in a YAML file with its aliases written out."""

_BOOLEAN = "tag:yaml.org,2002:bool"
_LOOSE = frozenset({_BOOLEAN, "tag:yaml.org,2002:timestamp"})
_TRUE_OR_FALSE = re.compile(r"(?:true|True|TRUE|false|False|FALSE)$")


def parse_data(text: str, suffix: str) -> Any:
    """Parse a data file.

    Args:
        text: the file.
        suffix: ``.json``, or that of a YAML file.

    Returns:
        Its value, or ``None`` where it is neither; the file is then plain text.

    Raises:
        IngestError: for YAML whose aliases multiply beyond reason.
    """
    if suffix != ".json":
        return _parse_yaml(text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _parse_yaml(text: str) -> Any:
    if len(text) > _MAX_YAML_CHARACTERS:
        return None
    import yaml

    # YAML 1.2 as far as tool descriptions need it: "on" and "no" are words, dates are text.
    resolvers = {
        letter: [rule for rule in rules if rule[0] not in _LOOSE]
        for letter, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for letter in "tTfF":
        resolvers.setdefault(letter, []).append((_BOOLEAN, _TRUE_OR_FALSE))
    loader = type("Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": resolvers})
    try:
        value = yaml.load(text, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if "&" in text and _exceeds(value, _MAX_NODES):
        raise IngestError(
            f"a YAML file whose aliases stand for more than {_MAX_NODES} values is not read; "
            "write it without aliases"
        )
    return value


def _exceeds(value: Any, limit: int) -> bool:
    """Count values, those behind aliases once for each alias, and stop at the limit."""
    pending, count = [value], 0
    while pending and count <= limit:
        node = pending.pop()
        count += 1
        if isinstance(node, dict):
            pending += node.values()
        elif isinstance(node, list):
            pending += node
    return count > limit
