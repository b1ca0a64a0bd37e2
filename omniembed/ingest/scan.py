"""From what a user points at to sources."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ..errors import IngestError, InputTypeError, SourceNotFoundError
from ..types import Document, Failure
from .options import IngestOptions
from .readers import read_file, settings_key
from .records import record_sources, table_rows
from .source import Scan, Source, file_digest
from .walk import walk


def scan(source: object, options: IngestOptions = IngestOptions()) -> Scan:
    """Find out what there is to index.

    Args:
        source: a path or a glob (str or ``Path``), an iterable of records, a pandas ``DataFrame``,
            or an Arrow table.
        options: what to read, and how to cut it.

    Returns:
        The scan.

    Raises:
        SourceNotFoundError: for an empty path. One that matches nothing is noted in the scan.
        IngestError: for a path that is no file or folder.
        InputTypeError: when the source is of another type.
    """
    if isinstance(source, (str, Path)):
        return _scan_path(source, options)
    rows = table_rows(source)
    if rows is not None:
        return Scan(record_sources(rows), None, _length(source))
    if isinstance(source, (Document, Mapping)) or callable(source):
        return Scan(record_sources([source]), None, 1)
    if isinstance(source, Iterable) and not isinstance(source, (bytes, bytearray)):
        return Scan(record_sources(source), None, _length(source))
    raise InputTypeError(
        f"cannot index a {type(source).__name__}; give a path, a glob, records "
        "(Document, dict, callable), a pandas DataFrame or an Arrow table"
    )


def _scan_path(source: str | Path, options: IngestOptions) -> Scan:
    text = os.path.expanduser(str(source))
    if not text.strip():
        raise SourceNotFoundError("the path to index is empty; give a file, a folder or a glob")
    path = Path(os.path.abspath(text))
    below = path.as_posix().rstrip("/") + "/"
    if os.path.isdir(path):
        found = list(walk(path, options))
        return Scan(_sources(found, options), _gone(lambda uri: uri.startswith(below)), len(found))
    if os.path.isfile(path):
        return Scan(_sources([path], options), None, 1)
    if os.path.lexists(path):
        raise IngestError(f"{path} is neither a file nor a folder that can be read")
    if glob.has_magic(text):
        return _scan_glob(text, options)
    missing = f"nothing to index at {str(source)!r}: no such file or folder"
    covers = _gone(lambda uri: uri == path.as_posix() or uri.startswith(below))
    return Scan([], covers, 0, missing)


def _scan_glob(pattern: str, options: IngestOptions) -> Scan:
    absolute = os.path.abspath(pattern)
    matched = {Path(name) for name in glob.glob(absolute, recursive=True)}
    root = _fixed_part(absolute)
    found = walk(root, options) if matched else iter(())
    files: list[Path | Failure] = [
        item
        for item in found
        if isinstance(item, Failure) or item in matched or not matched.isdisjoint(item.parents)
    ]
    nothing = not any(isinstance(item, Path) for item in files)
    missing = f"nothing to index: no file matches {pattern!r}" if nothing else None
    return Scan(_sources(files, options), _gone(_matches(absolute)), len(files), missing)


def _gone(covers: Callable[[str], bool]) -> Callable[[str], bool]:
    """Restrict a scope to files that no longer exist.

    What exists but was passed over, such as an ignored file that was indexed by its own name,
    has not vanished.
    """
    return lambda uri: covers(uri) and not os.path.lexists(uri)


def _fixed_part(pattern: str) -> Path:
    """Return the folder above a pattern's first wildcard."""
    parts = Path(pattern).parts
    fixed = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    return Path(*parts[:fixed])


def _matches(pattern: str) -> Callable[[str], bool]:
    """Tell for a stored uri whether the pattern covers it, whether or not the file exists."""
    wanted = Path(pattern).parts
    return lambda uri: _covers(Path(uri).parts, wanted)


def _covers(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Match part by part; a pattern that matches a folder covers what lies in it."""
    if not pattern:
        return True
    if pattern[0] == "**":
        return any(_covers(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _covers(parts[1:], pattern[1:])


def _sources(found: Iterable[Path | Failure], options: IngestOptions) -> Iterator[Source | Failure]:
    for item in found:
        if isinstance(item, Failure):
            yield item
            continue
        try:
            digest = file_digest(item, settings_key(item, options))
        except OSError as error:
            reason = IngestError(f"cannot read {item}: {error.strerror or error}")
            yield Failure(item.as_posix(), reason)
            continue
        yield Source(item.as_posix(), digest, _reader(item, options))


def _reader(path: Path, options: IngestOptions) -> Callable[[], list[Document]]:
    return lambda: read_file(path, options)


def _length(source: object) -> int | None:
    return len(source) if hasattr(source, "__len__") else None
