"""The data that travels through omniembed: documents, queries, routes, hits, reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from .errors import EmptyInputError, InputError, InputTypeError, OmniEmbedError

if TYPE_CHECKING:
    from PIL.Image import Image

ImageInput: TypeAlias = Union[Path, "Image"]
"""An image: a path to a file, or a loaded ``PIL.Image``. A ``str`` is always text."""


class Kind(str, Enum):
    """What a document is. Compares and formats as its string value."""

    TEXT = "text"
    CODE = "code"
    IMAGE = "image"
    TOOL = "tool"

    def __str__(self) -> str:
        return self.value

    @classmethod
    def parse(cls, value: object) -> Kind:
        """Return the kind that ``value`` names.

        Args:
            value: a ``Kind`` or one of ``"text"``, ``"code"``, ``"image"``, ``"tool"``.

        Returns:
            The kind.

        Raises:
            InputError: for any other value.
        """
        try:
            return cls(value)
        except ValueError:
            known = ", ".join(kind.value for kind in cls)
            raise InputError(f"unknown document kind {value!r}; use one of: {known}") from None


@dataclass(frozen=True, slots=True)
class Document:
    """One thing that can be found.

    Attributes:
        text: what is embedded and searched by words; for an image, its caption (may be empty).
        kind: what the document is; a string is converted. With an image, ``image``.
        id: unique in a store; derived from ``uri`` and the content when empty.
        title: heading, symbol or tool name; embedded ahead of the text.
        uri: where the document came from (a file path, or any identifier of the source).
        image: the picture of an image document.
        language: programming or natural language, lower case (``"python"``); may be empty.
        symbol: function, class or operation that a code or tool document holds.
        start_line: first line in the source file, counted from 1.
        end_line: last line in the source file, inclusive.
        metadata: JSON values of the user's own.
    """

    text: str = ""
    kind: Kind = Kind.TEXT
    id: str = ""
    title: str = ""
    uri: str = ""
    image: ImageInput | None = None
    language: str = ""
    symbol: str = ""
    start_line: int | None = None
    end_line: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kind = Kind.parse(self.kind)
        if self.image is not None and kind is Kind.TEXT:
            kind = Kind.IMAGE  # the default kind says nothing about a document with a picture
        elif self.image is not None and kind is not Kind.IMAGE:
            raise InputError(f"a document of kind {kind.value!r} cannot have an image")
        object.__setattr__(self, "kind", kind)
        if not isinstance(self.text, str):
            raise InputTypeError(f"Document.text must be str, not {type(self.text).__name__}")

    @property
    def content(self) -> str:
        """Title and text as one string: what the text tower and word search read."""
        if self.title and not self.text.startswith(self.title):
            return f"{self.title}\n{self.text}"
        return self.text

    @property
    def location(self) -> str:
        """``uri``, with the line for documents cut from a file: ``src/app.py:12``."""
        place = self.uri or self.id
        return f"{place}:{self.start_line}" if self.start_line else place


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for: a text, an image, or an image with the change wanted in it.

    Attributes:
        text: the question; with ``image``, the modification.
        image: the reference picture.
        instruction: a task description, read ahead of the text.
        filters: as ``where`` of :meth:`OmniEmbed.search`, for this query only.
    """

    text: str | None = None
    image: ImageInput | None = None
    instruction: str | None = None
    filters: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.text is None and self.image is None:
            raise EmptyInputError("a Query needs a text, an image or both")

    @property
    def modality(self) -> str:
        """``"text"``, ``"image"`` or ``"composed"``."""
        if self.image is None:
            return "text"
        return "image" if self.text is None else "composed"


QueryInput: TypeAlias = str | ImageInput | tuple[ImageInput, str] | Query
"""What every query call takes; see :class:`Query`."""


@dataclass(frozen=True, slots=True)
class NearPilot:
    """A pilot of an expert that lies near a query.

    Attributes:
        expert: whose it is.
        dataset: the set that it stands for.
        example: a query of that set.
        similarity: cosine to the query at the gate's layer.
    """

    expert: str
    dataset: str
    example: str
    similarity: float


@dataclass(frozen=True, slots=True)
class Route:
    """How a query was encoded.

    Attributes:
        expert: name of the adapter that served the query, or ``"base"``.
        confidence: estimated probability that the expert beats the base, where the two differ;
            1.0 for an expert that the gate did not choose. When the gate abstained, that of the
            expert it came closest to choosing.
        scores: the same probability for every expert; empty when the gate was not asked.
        abstained: True when the gate was asked and kept to the base.
        truncated: True when the query was longer than the model reads.
        nearest: pilots nearest to the query; only :meth:`OmniEmbed.route` fills it.
        reason: why it was decided so, in words; only :meth:`OmniEmbed.route` fills it.
    """

    expert: str = "base"
    confidence: float = 1.0
    scores: Mapping[str, float] = field(default_factory=dict)
    abstained: bool = False
    truncated: bool = False
    nearest: Sequence[NearPilot] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result.

    Attributes:
        score: cosine similarity, or the fused rank score of a hybrid search; higher is better.
        document: what was found.
        route: how the query was encoded.
    """

    score: float
    document: Document
    route: Route


@dataclass(frozen=True, slots=True)
class Failure:
    """A source that could not be indexed, and why.

    Attributes:
        uri: the file or record.
        error: the typed error; ``str(error)`` is the message.
    """

    uri: str
    error: OmniEmbedError


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What an indexing run did. Counts are documents; a long file yields several.

    Attributes:
        added: documents that are new in the store.
        updated: documents whose content changed.
        unchanged: documents left as they were; nothing was embedded for them.
        removed: documents whose source vanished or got shorter.
        failed: sources that could not be read; what the store held of them was kept.
        skipped: sources passed over for cause (empty, binary), with the reason.
        truncated: documents longer than the model reads; the rest of their text was not embedded.
        seconds: wall time of the run.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: Sequence[Failure] = ()
    skipped: Sequence[Failure] = ()
    truncated: int = 0
    seconds: float = 0.0
