"""``bundle.json``: what a bundle holds, for its runtimes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...errors import ExportError
from ...experts.registry import LoadedExperts
from ...models.manifest import ImagePreprocessing, Manifest
from ...router import GateSettings

FILE_NAME = "bundle.json"
FORMAT = 1


def describe(
    directory: Path,
    manifest: Manifest,
    experts: LoadedExperts,
    settings: GateSettings | None,
    *,
    images: bool,
    precision: str,
) -> dict[str, Any]:
    """Gather what the runtimes need to know.

    Args:
        directory: of the model.
        manifest: of the model.
        experts: those in the bundle.
        settings: of the gate; ``None`` for a model without one.
        images: whether the vision tower is in the bundle.
        precision: of the text graph.

    Returns:
        JSON values.
    """
    preprocessing = manifest.image if images else None
    return {
        "format": FORMAT,
        "name": manifest.name,
        "fingerprint": manifest.fingerprint,
        "precision": precision,
        "dim": manifest.dim,
        "gate_dim": manifest.gate_dim,
        "max_tokens": manifest.max_tokens,
        "special": special_tokens(directory / "tokenizer.json"),
        "lora": [asdict(target) for target in manifest.lora],
        "image": None if preprocessing is None else _preprocessing(preprocessing),
        "gate": None if settings is None else _gate(settings, experts),
        "experts": [
            {
                "name": name,
                "purpose": pack.card.purpose,
                "kinds": [kind.value for kind in pack.card.kinds],
                "strength": pack.card.strength,
                "composed": pack.composed is not None,
            }
            for name, pack in experts.packs.items()
        ],
        "provenance": [asdict(part) for part in manifest.provenance],
    }


def _preprocessing(image: ImagePreprocessing) -> dict[str, Any]:
    return {"size": image.size, "crop": image.crop, "resample": image.resample}


def _gate(settings: GateSettings, experts: LoadedExperts) -> dict[str, Any]:
    unfitted = {
        name: [kind.value for kind in pack.card.kinds]
        for name, pack in experts.packs.items()
        if pack.gate.direction is None
    }
    return {"classes": list(settings.kinds), "cover": settings.cover, "added": unfitted}


def special_tokens(path: Path) -> dict[str, list[int]]:
    """Find the tokens that a tokenizer puts around every text.

    Args:
        path: of ``tokenizer.json``.

    Returns:
        Token ids ``before`` and ``after`` a text, so that a runtime can cut long texts itself.

    Raises:
        ExportError: when the tokenizer does not keep a text in one piece.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    bare = tokenizer.encode("a", add_special_tokens=False).ids
    full = tokenizer.encode("a").ids
    for start in range(len(full) - len(bare) + 1):
        if full[start : start + len(bare)] == bare:
            return {"before": full[:start], "after": full[start + len(bare) :]}
    raise ExportError(
        f"{path} turns 'a' into {bare} alone and into {full} with special tokens; "
        "edge bundles need special tokens before and after the text only"
    )


def contents(folder: Path) -> set[str]:
    """List the files that a bundle was written with.

    Args:
        folder: of the bundle.

    Returns:
        Paths relative to the folder; those of compiled Python modules too. Empty when the
        description cannot be read.
    """
    try:
        listed = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))["contents"]
        own = {str(name) for name in listed}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    compiled = {
        file.relative_to(folder).as_posix()
        for file in folder.rglob("__pycache__/*.pyc")
        if file.parent.parent.relative_to(folder)
        .joinpath(f"{file.name.partition('.')[0]}.py")
        .as_posix()
        in own
    }
    return own | compiled


def write(folder: Path, description: Mapping[str, Any]) -> None:
    """Write :data:`FILE_NAME`.

    Args:
        folder: of the bundle.
        description: JSON values.
    """
    text = json.dumps(description, indent=1, ensure_ascii=False)
    (folder / FILE_NAME).write_text(text + "\n", encoding="utf-8")
