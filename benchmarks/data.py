"""Reading the benchmark sets: BEIR-like folders and captioned image folders."""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omniembed import Document


@dataclass(frozen=True)
class RetrievalSet:
    """Documents, queries and judgements of one split.

    Attributes:
        documents: the corpus.
        queries: text by query id.
        qrels: relevance by query id and document id.
    """

    documents: list[Document]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]


def parser(description: str | None) -> argparse.ArgumentParser:
    """Make a parser that knows where the data lies.

    Args:
        description: the benchmark's docstring.

    Returns:
        A parser with ``--data``.
    """
    result = argparse.ArgumentParser(description=description)
    result.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("OMNIBENCH_DATA"),
        required="OMNIBENCH_DATA" not in os.environ,
        help="folder with text_code_tool/ and image/ (or set OMNIBENCH_DATA)",
    )
    return result


def load_retrieval(folder: Path, split: str = "test") -> RetrievalSet:
    """Read a BEIR-like folder.

    Args:
        folder: with corpus.jsonl.gz, queries.jsonl.gz and qrels/.
        split: name of the qrels file.

    Returns:
        The set, with the queries that have judgements.
    """
    qrels: dict[str, dict[str, int]] = {}
    with (folder / "qrels" / f"{split}.tsv").open(encoding="utf-8") as stream:
        for query, document, score in list(csv.reader(stream, delimiter="\t"))[1:]:
            qrels.setdefault(query, {})[document] = int(score)
    documents = [
        Document(id=row["id"], title=row.get("title", ""), text=row["text"], kind=row["kind"])
        for row in read_jsonl(folder / "corpus.jsonl.gz")
    ]
    queries = {row["id"]: row["text"] for row in read_jsonl(folder / "queries.jsonl.gz")}
    return RetrievalSet(documents, {query: queries[query] for query in qrels}, qrels)


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Read a gzipped JSON-lines file.

    Args:
        path: the file.

    Yields:
        Rows.
    """
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)
