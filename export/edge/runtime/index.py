"""Exact search over document vectors held in memory."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .files import Floats
from .routes import EdgeError, Route


@dataclass(frozen=True)
class Hit:
    """One search result.

    Attributes:
        score: cosine similarity.
        document: what was found: ``id``, ``kind``, ``title``, ``text``, ``uri`` and more.
        route: how the query was encoded.
    """

    score: float
    document: Mapping[str, Any]
    route: Route


class Index:
    """Documents and their vectors.

    Args:
        documents: one mapping a document, with an ``id`` and a ``kind``.
        vectors: float32 (n, dim), unit norm.

    Raises:
        EdgeError: when the numbers differ.
    """

    def __init__(self, documents: Sequence[Mapping[str, Any]], vectors: Floats) -> None:
        if len(documents) != len(vectors):
            raise EdgeError(f"{len(documents)} documents do not go with {len(vectors)} vectors")
        self.documents = list(documents)
        self.vectors = np.asarray(vectors, np.float32)

    def __len__(self) -> int:
        return len(self.documents)

    @classmethod
    def read(cls, folder: Path) -> Index:
        """Read an exported store.

        Args:
            folder: with ``vectors.npy`` and ``documents.jsonl``.

        Returns:
            The index.

        Raises:
            EdgeError: when a file is missing or broken.
        """
        try:
            lines = (folder / "documents.jsonl").read_text(encoding="utf-8").split("\n")
            vectors = np.load(folder / "vectors.npy", allow_pickle=False)
            documents = [json.loads(line) for line in lines if line]
        except OSError as error:
            raise EdgeError(
                f"cannot read the index: {error}; export the bundle with --store"
            ) from error
        except (ValueError, RecursionError) as error:
            raise EdgeError(f"the index in {folder} is broken: {error}") from error
        if vectors.dtype != np.float32 or vectors.ndim != 2:
            raise EdgeError(
                f"the vectors in {folder} are {vectors.dtype} of shape {vectors.shape}, "
                "not a float32 matrix"
            )
        if not all(isinstance(one, dict) and "kind" in one for one in documents):
            raise EdgeError(f"a line of documents.jsonl in {folder} is no document with a kind")
        return cls(documents, vectors)

    def write(self, folder: Path) -> None:
        """Write the index.

        Args:
            folder: made when it does not exist.
        """
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "vectors.npy", self.vectors)
        lines = (json.dumps(document, ensure_ascii=False) for document in self.documents)
        (folder / "documents.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")

    def nearest(
        self, vector: Floats, top_k: int, kinds: Collection[str] | None = None
    ) -> list[tuple[float, Mapping[str, Any]]]:
        """Find the documents nearest to a vector.

        Args:
            vector: float32 (dim,), unit norm.
            top_k: number of documents wanted.
            kinds: kinds to search; all when ``None``.

        Returns:
            (cosine, document), best first; ties are ordered by id.

        Raises:
            EdgeError: when the vector has another length than those of the documents.
        """
        if self.vectors.shape[1:] != vector.shape:
            raise EdgeError(
                f"a query of {vector.shape} does not go with vectors of {self.vectors.shape}"
            )
        scores = (self.vectors @ vector).tolist()
        rows = [
            row
            for row, document in enumerate(self.documents)
            if kinds is None or document["kind"] in kinds
        ]
        rows.sort(key=lambda row: (-scores[row], str(self.documents[row].get("id", ""))))
        return [(scores[row], self.documents[row]) for row in rows[:top_k]]
