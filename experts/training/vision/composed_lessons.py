"""The losses of composed training: own vector, triplets, other styles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from .classes import remove_direction
from .combiner import Combiner
from .composed_data import ComposedQueries, ImageBank
from .composed_model import ComposedEncoder, Tokens
from .styles import draw_styles

LONGEST = 64


def tokenize(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> Tokens:
    """Tokenise modification texts.

    Args:
        tokenizer: Tokenizer of the text tower.
        texts: The texts.

    Returns:
        Padded tokens.
    """
    batch = tokenizer(list(texts), padding=True, truncation=True, max_length=LONGEST)
    return Tokens(torch.tensor(batch["input_ids"]), torch.tensor(batch["attention_mask"]))


@dataclass
class Lessons:
    """Draws batches and computes their losses.

    Attributes:
        model: The expert.
        tokenizer: Tokenizer of the text tower.
        bank: The training images.
        labels: Name of the thing shown, by path, for the images that have one.
        direction: Mean direction of captions, which image vectors lack.
        batch_size: Queries of a batch.
        negatives: Random gallery images of a batch of triplets.
        style_negatives: Random images of a batch of styles.
        temperature: Temperature of the contrastive losses.
        rng: Source of all draws.
    """

    model: ComposedEncoder | Combiner
    tokenizer: PreTrainedTokenizerBase
    bank: ImageBank
    labels: Mapping[str, str]
    direction: Tensor
    batch_size: int
    negatives: int
    style_negatives: int
    temperature: float
    rng: np.random.Generator

    def _inputs(self, paths: Sequence[str]) -> tuple[Tensor, Tensor]:
        rows = torch.tensor([self.bank.positions[path] for path in paths])
        views = torch.as_tensor(self.rng.integers(len(self.bank.vectors), size=len(paths)))
        return self.bank.features[views, rows].float(), self.bank.vectors[views, rows]

    def _queries(self, paths: Sequence[str], texts: Sequence[str]) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            queries = self.model(*self._inputs(paths), tokenize(self.tokenizer, texts))
        return cast("Tensor", queries.float())

    def own_vector(self) -> Tensor:
        """Loss of pseudo-words that shall give back the vector of their image.

        Returns:
            Scalar.

        Raises:
            TypeError: The model has no pseudo-words.
        """
        if not isinstance(self.model, ComposedEncoder):
            raise TypeError(f"{type(self.model).__name__} has no pseudo-words; use no warm-up")
        count = 2 * self.batch_size
        rows = self.rng.choice(len(self.bank.positions), count, replace=False)
        paths = [list(self.bank.positions)[row] for row in rows]
        tokens = tokenize(self.tokenizer, [""] * count)
        with torch.autocast("cpu", torch.bfloat16):
            found = self.model.encode(self.model.pseudo_words(*self._inputs(paths)), tokens)
        wanted = self.bank.vectors[0, torch.as_tensor(rows)]
        scores = found.float() @ wanted.T / self.temperature
        return nn.functional.cross_entropy(scores, torch.arange(count))

    def triplets(self, queries: ComposedQueries) -> Tensor:
        """Loss of composed queries of one set against images of its gallery.

        Args:
            queries: Training queries.

        Returns:
            Scalar.
        """
        count = min(self.batch_size, len(queries.triplets))
        rows = self.rng.choice(len(queries.triplets), count, replace=False)
        chosen = [queries.triplets[row] for row in rows]
        texts = [str(self.rng.choice([item.modification, *item.paraphrases])) for item in chosen]
        images = [str(self.rng.choice(item.targets)) for item in chosen]
        images += [item.reference for item in chosen]
        images += [str(path) for path in self.rng.choice(queries.gallery, self.negatives)]
        places = {path: place for place, path in enumerate(dict.fromkeys(images))}
        right = torch.zeros(count, len(places), dtype=torch.bool)
        own = torch.zeros(count, len(places), dtype=torch.bool)
        for row, item in enumerate(chosen):
            right[row, [places[path] for path in item.targets if path in places]] = True
            own[row, places[item.reference]] = True
        vectors = self._queries([item.reference for item in chosen], texts)
        wanted = self.bank.vectors[0, [self.bank.positions[path] for path in places]]
        # The reference is left out of the ranking, so it is no negative of its own query.
        scores = (vectors @ wanted.T / self.temperature).masked_fill(own, float("-inf"))
        found = torch.logsumexp(scores.masked_fill(~right, float("-inf")), 1)
        return (torch.logsumexp(scores, 1) - found).mean()

    def styles(self) -> Tensor:
        """Loss of queries for things in another style, with texts as the answers.

        The reference and other images are wrong answers: what is asked for is another kind
        of picture, so that the query has to leave the kind of its reference.

        Returns:
            Scalar.
        """
        batch = draw_styles(self.labels, self.batch_size, self.rng)
        with torch.autocast("cpu", torch.bfloat16):
            texts = self.model.encode_plain(tokenize(self.tokenizer, batch.answers))
        texts = nn.functional.normalize(remove_direction(texts.float(), self.direction), dim=-1)
        references = [self.bank.positions[path] for path in batch.images]
        others = self.rng.choice(len(self.bank.positions), self.style_negatives, replace=False)
        images = self.bank.vectors[0, torch.as_tensor([*references, *others])]
        vectors = self._queries(batch.images, batch.modifications)
        scores = vectors @ torch.cat([texts, images]).T / self.temperature
        answers = np.array(batch.answers)
        right = torch.zeros(scores.shape, dtype=torch.bool)
        right[:, : len(answers)] = torch.from_numpy(answers[: len(scores), None] == answers)
        found = torch.logsumexp(scores.masked_fill(~right, float("-inf")), 1)
        return (torch.logsumexp(scores, 1) - found).mean()
