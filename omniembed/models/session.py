"""ONNX Runtime sessions: explicit threads, an arena switch, one shared session a file.

A session works on one thread, and :func:`run_all` keeps several calls going at once. For models
of this size that is faster than several threads inside each call, which wait for one another
after every layer (``benchmarks/threads.py``).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, ModelError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_LOG_ERRORS_ONLY = 3

Batch = TypeVar("Batch")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How ONNX Runtime runs.

    Attributes:
        threads: calls that run at once; ``None`` for the processors this process may use.
        memory_arena: keep freed memory for the next call. Batches are small enough that this
            costs a few tens of MB, and asking the system for it anew costs half the speed.
    """

    threads: int | None = None
    memory_arena: bool = True

    def __post_init__(self) -> None:
        valid = isinstance(self.threads, int) and not isinstance(self.threads, bool)
        if self.threads is not None and not (valid and self.threads >= 1):
            raise InputError(
                f"threads must be 1 or more, or None for all processors, not {self.threads!r}"
            )

    @property
    def workers(self) -> int:
        """Number of calls that run at once."""
        return self.threads or available_processors()


def available_processors() -> int:
    """Count the processors that this process may run on.

    Returns:
        At least 1.
    """
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # macOS, Windows
        return max(1, os.cpu_count() or 1)


_sessions: dict[tuple[Path, int, bool], InferenceSession] = {}
_lock = threading.Lock()


def open_session(path: Path, options: SessionOptions) -> InferenceSession:
    """Open a model file, or return the session that is already open for it.

    Args:
        path: an ONNX file.
        options: run options.

    Returns:
        A session that any number of threads may call.

    Raises:
        ModelError: when the file cannot be loaded.
    """
    resolved = path.resolve()
    try:
        key = (resolved, resolved.stat().st_mtime_ns, options.memory_arena)
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error}") from error
    with _lock:
        if key not in _sessions:
            _sessions[key] = _create(resolved, options)
        return _sessions[key]


def _create(path: Path, options: SessionOptions) -> InferenceSession:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    # Never 0, which makes ONNX Runtime set processor affinities of its own.
    settings.intra_op_num_threads = 1
    settings.inter_op_num_threads = 1
    settings.enable_cpu_mem_arena = options.memory_arena
    settings.enable_mem_pattern = options.memory_arena
    settings.log_severity_level = _LOG_ERRORS_ONLY
    try:
        return onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelError(f"ONNX Runtime cannot load {path}: {error}") from error


def run_all(
    work: Callable[[Batch], Result], batches: Sequence[Batch], options: SessionOptions
) -> Iterator[tuple[Batch, Result]]:
    """Run independent batches, several at once.

    Args:
        work: handles one batch; called from several threads.
        batches: the batches.
        options: how many at once.

    Yields:
        Every batch with its result, in order.
    """
    if options.workers == 1 or len(batches) == 1:
        for batch in batches:
            yield batch, work(batch)
        return
    with ThreadPoolExecutor(min(options.workers, len(batches))) as pool:
        yield from zip(batches, pool.map(work, batches), strict=True)


def run(
    session: InferenceSession, outputs: Sequence[str], feeds: Mapping[str, NDArray[Any]]
) -> list[NDArray[np.float32]]:
    """Run a session.

    Args:
        session: from :func:`open_session`.
        outputs: names of the outputs wanted.
        feeds: input arrays by name.

    Returns:
        The outputs, in order.

    Raises:
        ModelError: when ONNX Runtime refuses the inputs.
    """
    try:
        result: list[NDArray[np.float32]] = session.run(list(outputs), dict(feeds))
    except Exception as error:
        raise ModelError(f"the model failed on this input: {error}") from error
    return result
