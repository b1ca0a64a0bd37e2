"""Checking an exported directory again, without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ExportError
from ..models.manifest import read_manifest, verify_hashes
from .parity import FILE_NAME, THRESHOLDS, ParityReport, Thresholds, judge, measure_directory
from .reference import read_reference


def verify_model(
    directory: str | Path, *, thresholds: Mapping[str, Thresholds] = THRESHOLDS
) -> ParityReport:
    """Compare a directory with the digests and the torch vectors that its export recorded.

    Args:
        directory: as :func:`omniembed.export.export_model` wrote it.
        thresholds: what must be reached, by precision.

    Returns:
        The report, measured on this machine.

    Raises:
        ModelError: when a file is missing or damaged.
        ExportError: when the directory holds no reference.
    """
    folder = Path(directory)
    manifest = read_manifest(folder)
    verify_hashes(folder, manifest)
    recorded = _recorded(folder)
    rows = measure_directory(folder, str(recorded["precision"]), read_reference(folder))
    return ParityReport(
        name=manifest.name,
        precision=str(recorded["precision"]),
        opset=int(recorded["opset"]),
        operators=recorded["operators"],
        rows=tuple(rows),
        failures=judge(rows, thresholds),
    )


def _recorded(folder: Path) -> dict[str, Any]:
    path = folder / FILE_NAME
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        known = content["precision"] in THRESHOLDS and {"opset", "operators"} <= content.keys()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ExportError(
            f"{path} cannot be read: {error!r}. Only directories that omniembed export model "
            "wrote can be verified"
        ) from error
    if not known:
        raise ExportError(f"{path} is malformed: precision {content['precision']!r}")
    return content
