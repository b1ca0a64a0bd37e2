"""One file to documents: the reader is chosen by suffix, tools by content."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import EmptyInputError, IngestError, UnsupportedFileError
from ..types import Document, Kind
from .code import cut_code
from .data import parse_data
from .decoding import Decoded, clean_text, decode
from .languages import CODE, DATA, HTML, IMAGES, MARKDOWN, PDF, RST, header_language, language_of
from .markup import html_sections, markdown_sections, plain_sections, rst_sections
from .options import IngestOptions
from .passages import Section, cut
from .tools import tools_in

_NOT_TEXT = frozenset(
    {
        ".svg",
        ".ico",
        ".heic",
        ".avif",
        ".psd",
        ".mp3",
        ".mp4",
        ".wav",
        ".zip",
        ".gz",
        ".tar",
        ".7z",
        ".onnx",
        ".pt",
        ".safetensors",
        ".lock",
        ".map",
        ".woff",
        ".woff2",
        ".ttf",
        ".pyc",
        ".so",
        ".dll",
        ".exe",
        ".parquet",
        ".npy",
        ".npz",
        ".pkl",
    }
)


def read_file(path: Path, options: IngestOptions) -> list[Document]:
    """Read a file of any kind.

    Args:
        path: the file.
        options: lengths and limits.

    Returns:
        Its documents, with uri, id and position.

    Raises:
        EmptyInputError: when it holds nothing to index.
        UnsupportedFileError: when it is in no format that is read.
        IngestError: when it is damaged or too large.
    """
    suffix = path.suffix.lower()
    if suffix in IMAGES:
        title = " ".join(path.stem.replace("_", " ").replace("-", " ").split())
        documents = [Document(kind=Kind.IMAGE, image=path, title=title)]
    elif suffix in _NOT_TEXT:
        raise UnsupportedFileError(f"{path}: {suffix} files are not read")
    elif suffix in PDF:
        documents = list(_pdf(path, options))
    else:
        documents = list(_text_file(path, suffix, options))
    if not documents:
        raise EmptyInputError(f"{path} holds nothing to index")
    uri = path.as_posix()
    return [
        replace(document, uri=uri, id=f"{uri}#{position}")
        for position, document in enumerate(documents)
    ]


def _text_file(path: Path, suffix: str, options: IngestOptions) -> Iterator[Document]:
    decoded = decode(_bytes(path, options), str(path))
    head = decoded.text.partition("\n")[0]
    language = language_of(path, head)
    if suffix == ".h":
        language = header_language(decoded.text)
    if suffix in DATA:
        tools = tools_in(parse_data(decoded.text, suffix))
        if tools is not None:
            yield from tools
            return
    if language:
        yield from _code(path, language, decoded, options)
    elif suffix == ".ipynb":
        yield from _notebook(path, decoded, options)
    else:
        title, sections = _sections(suffix, decoded.text)
        yield from _passages(title or path.stem, sections, decoded, options)


def _bytes(path: Path, options: IngestOptions) -> bytes:
    _check_size(path, options)
    return path.read_bytes()


def _check_size(path: Path, options: IngestOptions) -> None:
    size = path.stat().st_size
    if size > options.max_file_bytes:
        raise IngestError(
            f"{path} has {size} bytes, more than the limit of {options.max_file_bytes}; "
            "split it, or raise IngestOptions.max_file_bytes"
        )


def _sections(suffix: str, text: str) -> tuple[str, list[Section]]:
    if suffix in HTML:
        return html_sections(text)
    if suffix in MARKDOWN:
        return "", markdown_sections(text)
    if suffix in RST:
        return "", rst_sections(text)
    return "", plain_sections(text)


def _passages(
    title: str, sections: Sequence[Section], decoded: Decoded, options: IngestOptions
) -> Iterator[Document]:
    notes = {} if decoded.encoding in {"utf-8", "utf-8-sig"} else {"encoding": decoded.encoding}
    for section in sections:
        for passage in cut(section, options):
            heading = " > ".join(passage.headings)
            yield Document(
                text=passage.text,
                title=heading or title,
                start_line=passage.start_line,
                end_line=passage.end_line,
                metadata={**notes, **({"headings": list(passage.headings)} if heading else {})},
            )


def _code(
    path: Path, language: str, decoded: Decoded, options: IngestOptions
) -> Iterator[Document]:
    name = "typescript" if language == "tsx" else language
    for piece in cut_code(decoded.text, language, options):
        yield Document(
            text=piece.text,
            kind=Kind.CODE,
            title=f"{path.name}: {piece.symbol}" if piece.symbol else path.name,
            language=name,
            symbol=piece.symbol,
            start_line=piece.start_line,
            end_line=piece.end_line,
        )


def _notebook(path: Path, decoded: Decoded, options: IngestOptions) -> Iterator[Document]:
    try:
        notebook = json.loads(decoded.text)
        cells = [
            (str(cell.get("cell_type")), "".join(cell.get("source", "")))
            for cell in notebook["cells"]
        ]
        language = str(notebook.get("metadata", {}).get("kernelspec", {}).get("language", "python"))
        language = language.lower()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise IngestError(f"{path} is no valid notebook: {error}") from error
    for number, (kind, source) in enumerate(cells, 1):
        cell = Decoded(source, decoded.encoding)
        if kind == "code":
            documents = _code(path, language, cell, options)
        else:
            documents = _passages(path.stem, markdown_sections(source), cell, options)
        for document in documents:
            # Lines count within the cell, which an editor cannot jump to.
            metadata = {**document.metadata, "cell": number}
            yield replace(document, start_line=None, end_line=None, metadata=metadata)


def _pdf(path: Path, options: IngestOptions) -> Iterator[Document]:
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    _check_size(path, options)
    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise IngestError(f"{path} is encrypted; save it without a password")
        pages = [page.extract_text() for page in reader.pages]
        title = str((reader.metadata.title if reader.metadata else None) or path.stem)
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise IngestError(f"{path} is damaged: {error}") from error
    for number, text in enumerate(pages, 1):
        cleaned = Decoded(clean_text(text), "utf-8")
        for document in _passages(title, plain_sections(cleaned.text), cleaned, options):
            metadata = {**document.metadata, "page": number}
            yield replace(document, start_line=None, end_line=None, metadata=metadata)


def settings_key(path: Path, options: IngestOptions) -> str:
    """Name what changes a file's documents besides its bytes.

    Args:
        path: the file.
        options: of the scan.

    Returns:
        Part of its digest.
    """
    if path.suffix.lower() in IMAGES:
        return ""
    overlap = options.overlap_characters
    known = CODE.get(path.suffix.lower(), "")
    return f"{known}|{options.text_characters}|{options.code_characters}|{overlap}"
