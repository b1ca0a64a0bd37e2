"""A composed search over several turns: each refines a reference picture."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..types import Hit, ImageInput

MAX_TURNS = 24


@dataclass(frozen=True)
class Reference:
    """The picture that the next change starts from.

    Attributes:
        name: what it is called in the history.
        image: the picture.
        thumbnail: data URI of a small copy.
    """

    name: str
    image: ImageInput
    thumbnail: str


@dataclass(frozen=True)
class Turn:
    """A reference, the change asked for, and what was found.

    Attributes:
        reference: the picture.
        text: the change; empty for a search by the picture alone.
        hits: best first.
    """

    reference: Reference
    text: str
    hits: tuple[Hit, ...]


@dataclass
class Conversation:
    """The turns of one visitor.

    Attributes:
        reference: what the next turn starts from.
        turns: oldest first.
    """

    reference: Reference | None = None
    turns: list[Turn] = field(default_factory=list)

    def start(self, reference: Reference) -> None:
        """Begin anew.

        Args:
            reference: the picture.
        """
        self.reference = reference
        self.turns = []

    def add(self, turn: Turn) -> None:
        """Append a turn; the oldest go when there are too many.

        Args:
            turn: the new one.
        """
        self.turns = [*self.turns, turn][-MAX_TURNS:]

    def back_to(self, at: int) -> Turn:
        """Return to an earlier turn; later ones are dropped.

        Args:
            at: its position.

        Returns:
            The turn, which is the last one now.
        """
        self.turns = self.turns[: at + 1]
        self.reference = self.turns[-1].reference
        return self.turns[-1]
