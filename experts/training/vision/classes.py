"""The training-free image vector: class probabilities over class-name vectors (ConSE)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from timm.data import ImageNetInfo
from torch import Tensor, nn

TEMPERATURE = 2.0
TEMPLATES = ("{}", "a {}", "a photo of a {}", "a picture of a {}")

Vectors = Mapping[str, npt.NDArray[np.float32]]


@dataclass(frozen=True)
class ClassName:
    """The WordNet text of one class.

    Attributes:
        lemmas: Synonyms.
        gloss: Synonyms and definition in one line.
    """

    lemmas: tuple[str, ...]
    gloss: str

    def phrases(self) -> tuple[str, ...]:
        """Put every synonym into every template."""
        return tuple(template.format(lemma) for lemma in self.lemmas for template in TEMPLATES)


def imagenet_names() -> list[ClassName]:
    """List the 1000 ImageNet classes in the order of the classifier's logits."""
    info = ImageNetInfo()
    return [
        ClassName(
            lemmas=tuple(info.index_to_description(index).split(", ")),
            gloss=info.index_to_description(index, detailed=True),
        )
        for index in range(info.num_classes())
    ]


def class_vectors(
    names: Sequence[ClassName], embed: Callable[[Sequence[str]], Vectors]
) -> npt.NDArray[np.float32]:
    """Embed classes as the mean of their phrases plus their gloss.

    Args:
        names: The classes.
        embed: Maps texts to their unit vectors.

    Returns:
        Unit vectors, float32 [classes, d].
    """
    vectors = embed([text for name in names for text in (*name.phrases(), name.gloss)])
    rows = []
    for name in names:
        phrases = np.mean([vectors[phrase] for phrase in name.phrases()], axis=0)
        row = phrases / np.linalg.norm(phrases) + vectors[name.gloss]
        rows.append(row / np.linalg.norm(row))
    return np.stack(rows).astype(np.float32)


class ClassAnchor(nn.Module):
    """Maps class logits to the mean of the class-name vectors, weighted by probability.

    The names are centred, so that the common part of all names does not drown the rest,
    and their mean direction is projected out: every caption has much of that direction,
    so it must not rank images.

    Args:
        names: Unit vectors of the class names, [classes, d].
        temperature: Divides the logits before the softmax.
    """

    centred: Tensor
    direction: Tensor

    def __init__(self, names: Tensor, temperature: float = TEMPERATURE) -> None:
        super().__init__()
        mean = names.mean(0)
        direction = nn.functional.normalize(mean, dim=0)
        self.register_buffer("direction", direction)
        self.register_buffer("centred", remove_direction(names - mean, direction))
        self.temperature = temperature

    def forward(self, logits: Tensor) -> Tensor:
        """Embed images by their class logits.

        Args:
            logits: float [n, classes].

        Returns:
            Unit vectors [n, d], orthogonal to the mean direction.
        """
        weights = torch.softmax(logits / self.temperature, -1)
        return nn.functional.normalize(weights @ self.centred, dim=-1)

    def log_posterior(self, vectors: Tensor, temperature: float) -> Tensor:
        """Log-probabilities of the classes given image vectors.

        Args:
            vectors: Unit vectors [n, d].
            temperature: Divides the cosines.

        Returns:
            float [n, classes].
        """
        cosines = vectors @ nn.functional.normalize(self.centred, dim=-1).T
        return torch.log_softmax(cosines / temperature, -1)


def remove_direction(vectors: Tensor, direction: Tensor) -> Tensor:
    """Take away the component along one direction.

    Args:
        vectors: float [n, d].
        direction: Unit vector [d].

    Returns:
        Vectors [n, d], orthogonal to the direction.
    """
    return vectors - (vectors @ direction).unsqueeze(-1) * direction
