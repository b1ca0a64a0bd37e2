"""Parts of the page that Gradio does not have, or not as safely."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.component_meta import ComponentMeta

from ..errors import OmniEmbedError, StoreError, UploadError
from ..experts.installed import home
from .library import Library
from .markup import BASE, notice
from .scripts import CLICKS, SKETCH, SKETCHING
from .uploads import read_picture


@dataclass
class Page:
    """What the tabs share while the page is put together.

    Attributes:
        library: what is searched.
        visitor: state of each session.
        choosers: dropdowns that list experts, kept in step with the visitor's own.
    """

    library: Library
    visitor: gr.State
    choosers: list[Chooser] = field(default_factory=list)

    def chooser(self, label: str, *, gate: bool = True, **options: Any) -> gr.Dropdown:
        """Make a dropdown of experts.

        Args:
            label: of the dropdown.
            gate: offer to leave the choice to the gate.
            **options: for Gradio.

        Returns:
            The dropdown.
        """
        choices = expert_choices([card.name for card in self.library.omni.experts.list()], gate)
        made = gr.Dropdown(choices, value=choices[0][1], label=label, **options)
        self.choosers.append(Chooser(made, gate))
        return made


@dataclass(frozen=True)
class Chooser:
    """A dropdown of experts.

    Attributes:
        dropdown: the component.
        gate: whether it offers to leave the choice to the gate.
    """

    dropdown: gr.Dropdown
    gate: bool


def expert_choices(names: Sequence[str], gate: bool = True) -> list[tuple[str, str]]:
    """List what may be asked to serve a query.

    Args:
        names: of the experts.
        gate: offer to leave the choice to the gate.

    Returns:
        Labels and values for a dropdown.
    """
    # Gradio would look up a bare "code" or "image" among its own translated words.
    first = [("the gate", "auto")] if gate else []
    return [*first, ("the base", BASE), *((f"expert {name}", name) for name in names)]


def panel(value: str = "", **options: Any) -> gr.HTML:
    """Show drawn HTML and report the clicks on its buttons.

    Args:
        value: at first.
        **options: for Gradio.

    Returns:
        The component; its ``click`` carries ``act`` and ``at``.
    """
    return gr.HTML(value, js_on_load=CLICKS, apply_default_css=False, **options)


def sketch_pad(**options: Any) -> gr.HTML:
    """Make a pad to draw on.

    Gradio's own editor keeps the drawings of all visitors in one dictionary until they are sent;
    this one leaves them in the browser.

    Args:
        **options: for Gradio.

    Returns:
        The component; its ``click`` carries ``image``, a PNG as a data URI.
    """
    return gr.HTML(
        "",
        html_template=SKETCH,
        js_on_load=SKETCHING,
        apply_default_css=False,
        **options,
    )


class _Quiet(ComponentMeta):
    """Gradio's metaclass, without the .pyi file that it writes beside the source."""

    def __new__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> type:
        return ABCMeta.__new__(cls, name, bases, attrs)


class _LocalOnly:
    """Takes files that were uploaded, and fetches nothing that a visitor names by URL."""

    async def async_move_resource_to_block_cache(self, url_or_file_path: Any) -> str | None:
        """Refuse URLs; see Gradio's ``Block``."""
        if "://" in str(url_or_file_path or ""):
            raise gr.Error("Only uploaded files are read, not addresses.", print_exception=False)
        moved: str | None = await super().async_move_resource_to_block_cache(  # type: ignore[misc]
            url_or_file_path
        )
        return moved


class Picture(_LocalOnly, gr.Image, metaclass=_Quiet):
    """An image component that hands over the path: the handler decodes it under our limits."""

    def get_block_name(self) -> str:
        """Name what draws it in the browser.

        Returns:
            The name of Gradio's own component.
        """
        return "image"

    def preprocess(self, payload: Any) -> str | None:
        """Pass the path of the upload.

        Args:
            payload: as Gradio receives it.

        Returns:
            The path; ``None`` without an upload.
        """
        return _path_of(payload)


class Upload(_LocalOnly, gr.File, metaclass=_Quiet):
    """A file component that hands over the path."""

    def get_block_name(self) -> str:
        """Name what draws it in the browser.

        Returns:
            The name of Gradio's own component.
        """
        return "file"

    def preprocess(self, payload: Any) -> str | None:
        """Pass the path of the upload.

        Args:
            payload: as Gradio receives it.

        Returns:
            The path; ``None`` without an upload.
        """
        return _path_of(payload)


def clear_refused(picture: str | None) -> Any:
    """Empty a picture component whose upload was refused.

    Args:
        picture: path of the upload.

    Returns:
        An update for the component.
    """
    try:
        if picture:
            read_picture(picture)
    except UploadError:
        return None
    return gr.skip()


def _path_of(payload: Any) -> str | None:
    # Gradio has checked that the path lies in its folder of uploads.
    path = getattr(payload, "path", None)
    return path if isinstance(path, str) and path else None


def problem(error: OmniEmbedError, *folders: str | Path) -> str:
    """Show an error to a visitor, without a path of the host.

    Args:
        error: what happened.
        *folders: whose path the message may hold.

    Returns:
        HTML.
    """
    if isinstance(error, StoreError):
        text = "Whoever runs this page finds the reason in its log."
        return notice("The store cannot be read", text, kind="error")
    message = str(error)
    for folder in (*folders, home(), Path.home()):
        message = message.replace(f"{folder}/", "").replace(str(folder), "the upload")
    return notice("That did not work", message, kind="error")
