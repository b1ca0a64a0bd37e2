"""``card.json``: what an expert is for and where it came from."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError, PackError
from ..types import Kind

FILE_NAME = "card.json"
FORMAT = 1
RESERVED = frozenset({"auto", "base"})

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """A data set that an expert was trained on.

    Attributes:
        name: of the set.
        licence: of the set.
        queries: number of training queries.
    """

    name: str
    licence: str
    queries: int


@dataclass(frozen=True, slots=True)
class ExpertCard:
    """Describes an expert.

    Attributes:
        name: lower case, unique among the loaded experts.
        purpose: one sentence.
        base: fingerprint of the base it was trained for.
        kinds: document kinds it aims at.
        query_forms: what its queries look like.
        strength: factor on the adapter, chosen on development data.
        training: the sets it was trained on.
        metrics: by set, measure by name.
        version: of the expert.
        format: format number of the pack.
    """

    name: str
    purpose: str
    base: str
    kinds: tuple[Kind, ...]
    query_forms: tuple[str, ...] = ()
    strength: float = 1.0
    training: tuple[TrainingSet, ...] = ()
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    version: str = "1"
    format: int = FORMAT

    def __post_init__(self) -> None:
        check_name(self.name)
        if not 0 < self.strength <= 2:
            raise PackError(
                f"expert {self.name!r}: strength must lie in (0, 2], not {self.strength}"
            )

    def write(self, directory: Path) -> None:
        """Write ``card.json``.

        Args:
            directory: the pack.
        """
        text = json.dumps(asdict(self), indent=2, ensure_ascii=False)
        (directory / FILE_NAME).write_text(text + "\n", encoding="utf-8")


def check_name(name: object) -> str:
    """Check the name of an expert.

    Args:
        name: the name.

    Returns:
        It.

    Raises:
        PackError: for a name that is reserved or not of the form.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise PackError(
            f"expert name {name!r} must be 1 to 64 lower-case letters, digits, '-' or '_', "
            "and start with a letter"
        )
    if name in RESERVED:
        raise PackError(f"expert name {name!r} is reserved; choose another")
    return name


def read_card(directory: Path) -> ExpertCard:
    """Read ``card.json``.

    Args:
        directory: a pack.

    Returns:
        The card.

    Raises:
        PackError: when it is missing or malformed.
    """
    path = directory / FILE_NAME
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise PackError(f"{path} is larger than {_MAX_BYTES} bytes")
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw.get("format") != FORMAT:
            raise PackError(
                f"{path} has format {raw.get('format')!r}; this version reads format {FORMAT}"
            )
        return _parse(raw)
    except FileNotFoundError:
        raise PackError(f"{directory} is not an expert pack: it has no {FILE_NAME}") from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        if isinstance(error, PackError):
            raise
        raise PackError(f"{path} is malformed: {error}") from error


def _parse(raw: dict[str, Any]) -> ExpertCard:
    try:
        kinds = tuple(Kind.parse(kind) for kind in raw["kinds"])
    except InputError as error:
        raise PackError(f"expert {raw.get('name')!r}: {error}") from error
    fields = {
        **raw,
        "kinds": kinds,
        "query_forms": tuple(str(form) for form in raw.get("query_forms", ())),
        "strength": float(raw.get("strength", 1.0)),
        "training": tuple(TrainingSet(**entry) for entry in raw.get("training", ())),
    }
    return ExpertCard(**fields)
