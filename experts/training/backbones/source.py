"""What a backbone consists of once it is loaded, wherever it came from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import Tokenizer
from torch import nn

from ....errors import ExportError
from ....models.manifest import ImagePreprocessing, Provenance, file_entry
from .base import TextBackbone


@dataclass(frozen=True)
class VisionSource:
    """A vision tower.

    Attributes:
        module: maps normalised float32 (n, 3, side, side) to (n, dim).
        path: dotted path of the tower in its model; names of LoRA layers begin with it.
        preprocessing: how pictures become its input.
        mean: of each colour channel.
        std: of each colour channel.
    """

    module: nn.Module
    path: str
    preprocessing: ImagePreprocessing
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class BackboneSource:
    """Towers in torch, ready to be exported or trained on.

    Attributes:
        name: for people.
        spec: what loads it again; empty for a model made in memory.
        text: the text tower.
        tokenizer: in the format of ``tokenizers``, without padding or truncation.
        max_tokens: longest input, special tokens included.
        vision: the vision tower, if there is one.
        provenance: where the parts came from.
    """

    name: str
    spec: str
    text: TextBackbone
    tokenizer: Tokenizer
    max_tokens: int
    vision: VisionSource | None = None
    provenance: tuple[Provenance, ...] = field(default=())


@contextmanager
def hub_errors(what: str) -> Iterator[None]:
    """Turn a hub that cannot be reached into a typed error.

    Args:
        what: the model asked for.

    Raises:
        ExportError: saying what could not be fetched and what to do.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        yield
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        offline = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "is there a network?"
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ExportError(
            f"cannot fetch {what} ({offline}): {reason} "
            "Check the name, go online, or give a local folder instead."
        ) from error


def weights_provenance(part: str, source: str, licence: str, weights: Path | None) -> Provenance:
    """Describe a part by the file its weights came from.

    Args:
        part: what it is.
        source: the spec.
        licence: as its configuration states it; empty when it does not.
        weights: the file, if it is one.

    Returns:
        The entry of the manifest.
    """
    digest = file_entry(weights).sha256 if weights is not None else ""
    return Provenance(part, source, licence or "not stated; see the source", digest)
