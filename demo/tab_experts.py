"""The tab Experts: what is loaded, packs added and removed, training on a visitor's own pairs."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import Any

import gradio as gr

from ..errors import OmniEmbedError, PackError
from ..experts.card import check_name
from .components import Page, Upload, expert_choices, panel, problem
from .expert_cards import expert_cards, outcome_view, progress_view
from .markup import notice
from .training import Training, TrainingJob, missing
from .uploads import MAX_PAIRS, copy_pairs, unpack_pack
from .visitor import MAX_OWN_EXPERTS, Visitor

_TICK = 0.5
_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
_PAIRS = '{"query": "who signs off travel at blick", "positive": "Legal approves trips."}'


def add_expert(pack: str | None, visitor: Visitor) -> tuple[str, str, Visitor]:
    """Add an uploaded pack for this visitor alone.

    Args:
        pack: path of the uploaded zip.
        visitor: who uploaded it.

    Returns:
        HTML of what happened and of the experts, and the visitor.
    """
    if not pack:
        return notice("Choose a zip file first"), _cards(visitor), visitor
    folder = visitor.folder("pack")
    try:
        _room(visitor)
        card = visitor.own_experts().add(unpack_pack(pack, folder))
        visitor.added.add(card.name)
        told = notice(f"{card.name} is loaded for your session", card.purpose)
    except OmniEmbedError as error:
        told = problem(error, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return told, _cards(visitor), visitor


def list_experts(visitor: Visitor) -> str:
    """Show the experts that this visitor sees.

    Args:
        visitor: who asks.

    Returns:
        HTML.
    """
    return _cards(visitor)


def remove_expert(name: str, visitor: Visitor) -> tuple[str, str, Visitor]:
    """Remove an expert for this visitor alone.

    Args:
        name: of the expert.
        visitor: who wants it gone.

    Returns:
        HTML of what happened and of the experts, and the visitor.
    """
    try:
        visitor.own_experts().remove(name)
        visitor.added.discard(name)
        told = notice(f"{name} is gone from your session", "Other visitors still have it.")
    except OmniEmbedError as error:
        told = problem(error)
    return told, _cards(visitor), visitor


def train(
    pairs: str | None, name: str, steps: float, keep_anyway: bool, visitor: Visitor
) -> Iterator[tuple[str, str, Visitor]]:
    """Train an expert and show how it goes.

    Args:
        pairs: path of the uploaded JSON Lines.
        name: of the new expert.
        steps: optimiser steps at most.
        keep_anyway: load it even when it is no better than the base.
        visitor: who trains.

    Yields:
        HTML of the run and of the experts, and the visitor.
    """
    try:
        job = _job(pairs, name, int(steps), keep_anyway, visitor)
    except OmniEmbedError as error:
        yield problem(error), gr.skip(), visitor
        return
    run = Training(job)
    visitor.training = run
    try:
        while (progress := run.progress()).running:
            yield progress_view(progress, name), gr.skip(), visitor
            time.sleep(_TICK)
    finally:
        run.stop()
    told = outcome_view(progress)
    if "error" not in progress.outcome:
        try:
            visitor.own_experts().add(job.folder)
            visitor.added.add(name)
        except OmniEmbedError as error:
            told = problem(error, job.folder)
    visitor.training = None
    yield progress_view(progress, name) + told, _cards(visitor), visitor


def build(page: Page) -> None:
    """Lay out the tab.

    Args:
        page: what the tabs share.
    """
    with gr.Row(equal_height=False):
        with gr.Column(scale=1, min_width=280):
            gr.Markdown("### Add a pack")
            pack = Upload(
                label="A pack as zip", file_types=[".zip"], height=130, elem_id="experts-pack"
            )
            told = panel(elem_id="experts-told")
            reset = gr.Button("Back to the shipped experts", size="sm", elem_id="experts-reset")
        with gr.Column(scale=2, min_width=300):
            gr.Markdown("### Train one on your pairs")
            trained = _training(page)
    shown = panel(_cards(Visitor(page.library)), elem_id="experts-cards")
    outputs = [told, shown, page.visitor]
    changed = [
        pack.upload(
            add_expert, [pack, page.visitor], outputs, api_name="add_expert",
            show_progress="minimal",
        ),
        shown.click(_removed, page.visitor, outputs, **_QUIET),
        reset.click(_reset, page.visitor, outputs, **_QUIET),
    ]  # fmt: skip
    if trained is not None:
        changed.append(trained(shown))
    # A button without a face: clients ask for the list, and a page that reconnects gets its own.
    renewed = gr.Button(visible=False)
    renewed.click(list_experts, page.visitor, shown, api_name="experts")
    dropdowns = [one.dropdown for one in page.choosers]
    # Make room for the next file.
    changed[0].then(lambda: None, None, pack, **_QUIET)
    for event in changed:
        event.then(_choices(page), [page.visitor, *dropdowns], dropdowns, **_QUIET)


def _training(page: Page) -> Any:
    """Lay out the form; give what connects it once the cards exist."""
    lacking = missing()
    if lacking:
        panel(
            notice(
                "Training needs the extra 'train'",
                "Install it with: pip install 'omniembed[train]' and start the demo again. "
                f"Missing here: {', '.join(lacking)}.",
            ),
            elem_id="experts-hint",
        )
        return None
    with gr.Row(equal_height=False):
        pairs = Upload(
            label=f"Pairs, JSON Lines, up to {MAX_PAIRS:,}",
            file_types=[".jsonl", ".json", ".txt"],
            height=130,
            scale=2,
            min_width=220,
            elem_id="train-pairs",
        )
        with gr.Column(scale=2, min_width=220):
            name = gr.Textbox(label="Name", value="mine", max_length=64, elem_id="train-name")
            steps = gr.Slider(20, 400, value=120, step=20, label="Steps at most")
            keep = gr.Checkbox(label="Load it even if it is no better", elem_id="train-keep")
    with gr.Row():
        go = gr.Button("Train", variant="primary", elem_id="train-go")
        halt = gr.Button("Stop", elem_id="train-stop")
    run = panel(notice("One pair a line", _PAIRS, kind="empty"), elem_id="train-run")
    halt.click(_halt, page.visitor, None, **_QUIET)

    def connect(shown: gr.HTML) -> Any:
        return go.click(
            train,
            [pairs, name, steps, keep, page.visitor],
            [run, shown, page.visitor],
            api_name="train",
            show_progress="hidden",
            concurrency_limit=1,
            concurrency_id="train",
        )

    return connect


def _job(
    pairs: str | None, name: str, steps: int, keep_anyway: bool, visitor: Visitor
) -> TrainingJob:
    if not pairs:
        raise PackError("Upload a file with pairs first")
    _room(visitor)
    if check_name(name) in visitor.experts:
        raise PackError(f"an expert {name!r} is loaded already; choose another name")
    folder = visitor.folder("training")
    checked = copy_pairs(pairs, folder)
    model = visitor.library.omni.model.directory
    return TrainingJob(name, checked, folder, model, min(max(steps, 20), 400), keep_anyway)


def _room(visitor: Visitor) -> None:
    if len(visitor.added) >= MAX_OWN_EXPERTS:
        raise PackError(f"a session may hold {MAX_OWN_EXPERTS} experts of its own; remove one")


def _cards(visitor: Visitor) -> str:
    return expert_cards(visitor.embedder.experts.list(), visitor.added)


def _removed(visitor: Visitor, event: gr.EventData) -> tuple[str, str, Visitor]:
    names, at = visitor.experts, int(event._data["at"])
    if not 0 <= at < len(names):
        return "", _cards(visitor), visitor
    return remove_expert(names[at], visitor)


def _reset(visitor: Visitor) -> tuple[str, str, Visitor]:
    visitor.reset_experts()
    return notice("Your session is back to the shipped experts"), _cards(visitor), visitor


def _halt(visitor: Visitor) -> None:
    if visitor.training is not None:
        visitor.training.stop()


def _choices(page: Page) -> Any:
    """Keep the dropdowns of all tabs in step with the visitor's experts."""

    def update(visitor: Visitor, *chosen: str) -> Any:
        updates = []
        for one, value in zip(page.choosers, chosen, strict=True):
            choices = expert_choices(visitor.experts, one.gate)
            kept = value if value in {known for _, known in choices} else choices[0][1]
            updates.append(gr.Dropdown(choices=choices, value=kept))
        return updates

    return update
