"""Every error that omniembed raises on purpose.

All derive from :class:`OmniEmbedError`; where a Python built-in says the same thing
(``ValueError``, ``KeyError``, ``ImportError``) the class derives from it too, so that
ordinary ``except`` clauses keep working. A message names the value, the limit and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable


class OmniEmbedError(Exception):
    """Base of all omniembed errors."""


class InputError(OmniEmbedError, ValueError):
    """A query, document or option has a value that cannot be used."""


class EmptyInputError(InputError):
    """A text is empty or holds only white space or control characters."""


class InputTypeError(OmniEmbedError, TypeError):
    """A query, document or source is of a type that omniembed does not read."""


class ImageError(InputError):
    """An image cannot be read; ``index`` is its position in the batch, if it had one."""

    def __init__(self, message: str, *, index: int | None = None) -> None:
        super().__init__(message if index is None else f"image {index}: {message}")
        self.index = index


class ImageTooLargeError(ImageError):
    """An image exceeds the pixel or byte limit; it was refused before decoding."""


class ImageDecodeError(ImageError):
    """An image file is missing, truncated, or in no format that Pillow reads."""


class FilterError(InputError):
    """A ``where`` filter names an unknown field, operator or a value of the wrong type."""


class UploadError(InputError):
    """An uploaded file was refused; nothing was kept of it."""


class UnknownExpertError(OmniEmbedError, KeyError):
    """No expert of that name is loaded."""

    def __init__(self, name: object, known: Iterable[str]) -> None:
        self.name = name
        self.known = sorted(known)
        super().__init__(
            f"unknown expert {name!r}; known: {', '.join(self.known)}. "
            "Use 'auto' to let the gate choose, or add a pack with omni.experts.add(path)."
        )

    def __str__(self) -> str:
        # KeyError would print the message's repr.
        return str(self.args[0])


class PackError(OmniEmbedError, ValueError):
    """An expert pack is broken, hostile or does not fit the base model; nothing was changed."""


class NotBetterError(OmniEmbedError):
    """A trained expert is no better than the base on held-out documents; it was not added."""


class ModelError(OmniEmbedError):
    """A model directory is missing, damaged or of an unknown format."""


class StoreError(OmniEmbedError):
    """The LanceDB store cannot be opened, read or written."""


class FingerprintMismatchError(StoreError):
    """The table was built with another base model than the one now loaded."""


class IngestError(OmniEmbedError):
    """A source cannot be turned into documents."""


class SourceNotFoundError(IngestError, FileNotFoundError):
    """A path or glob to index matches nothing."""


class UnsupportedFileError(IngestError):
    """A file is in no format that is read; indexing passes over it and says so."""


class ExportError(OmniEmbedError):
    """A backbone cannot be exported, or the exported model fails its parity check."""


class MissingExtraError(OmniEmbedError, ImportError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the {extra!r} extra; "
            f"install it with: pip install 'omniembed[{extra}]'"
        )
        self.extra = extra


class TruncationWarning(UserWarning):
    """Some texts were longer than the model reads; the rest of them was not embedded."""


class PackWarning(UserWarning):
    """An installed expert pack could not be loaded; the others were."""
