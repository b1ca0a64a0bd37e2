"""What benchmarks/edge.py has bundles do: queries of every kind, documents, pictures."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data import read_jsonl

from omniembed.models.images import load_rgb

QUERY_SETS = (
    *("scifact", "medquad", "openstax_text", "cranfield", "conala", "nl2bash"),
    *("mbpp", "wikisql", "metatool", "toollens", "sealtools", "clinc150"),
)
DOCUMENT_SETS = ("scifact", "openstax_text", "conala", "pydoc_mined", "metatool")
PICTURES = {"coco_mini": 30, "openstax_figures": 10, "emoji": 10, "openclipart": 10}
MODIFICATIONS = ("as a drawing", "at night", "in black and white", "with a red background")

LANGUAGES = (
    "Wie hoch ist der Eiffelturm?",
    "Rezept für Apfelkuchen ohne Butter",
    "Grüße aus Köln, schöne Straße",
    "où acheter un billet de train pour Lyon ?",
    "l'œuvre complète de Molière",
    "¿Cuál es la capital de Argentina?",
    "cómo leer un archivo CSV en Python",
    "qual é a previsão do tempo para amanhã?",
    "come si prepara il risotto alla milanese",
    "hoe laat vertrekt de laatste bus",
    "jak działa silnik elektryczny",
    "kuinka monta järveä Suomessa on",
    "Türkiye'nin İstanbul şehri nerede",
    "hur lagar man kanelbullar på svenska",
    "ποια είναι η πρωτεύουσα της Ελλάδας",
    "как отсортировать список в Python",
    "погода в Москве завтра",
    "як перекласти це речення українською",
    "מה השעה עכשיו בתל אביב",
    "كيف أتعلم البرمجة بسرعة",
    "भारत की राजधानी क्या है",
    "ประเทศไทยมีกี่จังหวัด",
    "Việt Nam có bao nhiêu tỉnh thành",
    "今天北京的天气怎么样",
    "如何在 Python 中读取文件",
    "東京駅から成田空港までの行き方",
    "カタカナとひらがなの違い",
    "서울에서 부산까지 얼마나 걸려요",
    "bagaimana cara membuat nasi goreng",
    "ni saa ngapi sasa hivi Nairobi",
)
ODD = (
    "a",
    "?",
    "42",
    "3.14159e-10",
    "   leading and trailing blanks\t\n",
    "line one\nline two\r\nline three",
    "!!!???...---",
    "{}[]()<>;:'\"\\|`~",
    "SELECT * FROM users WHERE name = 'O''Brien' -- comment",
    "for (int i = 0; i < n; ++i) { s += a[i]; }",
    "def f(x): return x**2 if x > 0 else -x",
    "https://example.org/path?query=1&other=%20two#fragment",
    "user.name+tag@example.com",
    "C:\\Users\\name\\Documents\\report.docx",
    "[CLS] special [SEP] tokens [MASK] as text [PAD] [UNK]",
    "<script>alert('x')</script>",
    "emoji 🙂🚀👩‍👩‍👧‍👦🇩🇪 in a query",
    "é and e\u0301 composed and decomposed",
    "ﬁne ligature, ½ fraction, ² power, ℃",
    "zero\u200bwidth\u200dmarks and\u00a0hard blanks",
    "\uff26\uff35\uff2c\uff2c \uff57\uff49\uff44\uff54\uff48 letters",
    "𝒎𝒂𝒕𝒉 letters and rare 𠮷 ideographs",
    "control \x01\x02 characters \x7f inside",
    "ALL CAPITALS AND Mixed CaSe",
    "pneumonoultramicroscopicsilicovolcanoconiosis",
    "x" * 120,
    "word " * 400,
)


@dataclass(frozen=True)
class Task:
    """Work for every runtime.

    Attributes:
        queries: texts.
        documents: texts.
        pictures: files by name.
        sizes: width and height by name of a picture.
        pairs: name of a picture and the change wanted in it.
        folder: where decoded pictures lie, for runtimes that have no decoder.
    """

    queries: list[str]
    documents: list[str]
    pictures: dict[str, Path]
    sizes: dict[str, tuple[int, int]]
    pairs: list[tuple[str, str]]
    folder: Path

    def record(self) -> dict[str, Any]:
        """Give what edge_run.mjs reads, as JSON values."""
        return {
            "queries": self.queries,
            "documents": self.documents,
            "pictures": list(self.pictures),
            "sizes": self.sizes,
            "pairs": self.pairs,
            "pixels": str(self.folder),
            "repeats": 50,
            "forced": 20,
        }


def make_task(data: Path, folder: Path, *, queries: int, documents: int) -> Task:
    """Gather queries, documents and pictures.

    Args:
        data: folder of the benchmark sets.
        folder: for decoded pictures.
        queries: number of queries, those in other languages and the odd ones included.
        documents: number of documents.

    Returns:
        The task.
    """
    own = [*LANGUAGES, *ODD]
    texts = data / "text_code_tool"
    files: dict[str, Path] = {}
    sizes: dict[str, tuple[int, int]] = {}
    for name, count in PICTURES.items():
        for file in sorted((data / "image" / name / "images").iterdir())[:count]:
            key = str(len(files))
            picture = load_rgb(file)
            (folder / f"{key}.rgb").write_bytes(picture.tobytes())
            files[key], sizes[key] = file, picture.size
    pairs = [(key, MODIFICATIONS[at % len(MODIFICATIONS)]) for at, key in enumerate(files)][:20]
    return Task(
        queries=[*_take(texts, QUERY_SETS, "queries.jsonl.gz", queries - len(own)), *own],
        documents=_take(texts, DOCUMENT_SETS, "corpus.jsonl.gz", documents),
        pictures=files,
        sizes=sizes,
        pairs=pairs,
        folder=folder,
    )


def _take(texts: Path, sets: Sequence[str], file: str, count: int) -> list[str]:
    """Take the first rows of every set, as many of each as fill the count."""
    share = -(-count // len(sets))
    rows = (itertools.islice(read_jsonl(texts / name / file), share) for name in sets)
    found = [f"{row.get('title', '')}\n{row['text']}".strip() for part in rows for row in part]
    return found[:count]
