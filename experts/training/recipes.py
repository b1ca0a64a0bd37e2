"""The recipes of the shipped experts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .batches import CandidateConfig
from .loop import TrainConfig

TEXT = ("scifact", "medquad", "pubmedqa", "openstax_text")
CODE = ("pydoc_mined", "conala", "mbpp", "nl2bash", "tldr_cmd", "wikisql")
TOOL = ("metatool", "tldr_tool", "sealtools", "apibench")
IMAGE = (
    "openstax_figures",
    "imagenet_compatible",
    "recipes",
    "openclipart",
    "emoji",
    "icons",
    "mulberry",
)
INTENT = ("clinc150", "banking77")

FOREIGN = (*TEXT, *CODE, *TOOL)
"""Sets whose documents form the mixed pool."""

TEXT_GUARD = ("obliqa/dev", "climate_fever_sent/dev", "wikiqa/dev", "cranfield/dev")
CODE_GUARD = ("cosqa/dev", "text2sql_templates/dev")
TOOL_GUARD = ("toollens/dev",)

UNSEEN_SHARE = {"metatool": 0.12, "apibench": 0.1}
"""Share of documents held out of training where dev shares its documents with train."""


@dataclass(frozen=True)
class Recipe:
    """How one shipped expert is made.

    Attributes:
        name: name of the expert.
        sets: training sets and how often each is drawn, beside its size.
        start: expert to begin with; empty for the bare base.
        config: settings of the run.
        scales: strengths to choose from on dev.
        guard: splits out of domain that the choice of the strength also looks at.
        tolerated: how far the guards' mean nDCG@10 may lie below its best.
        sentences: sets whose passages are also trained on with a sentence of theirs as the query.
            The base finds those already: they keep the expert from unlearning it.
        seeds: one run each; the expert is the average of the runs.
    """

    name: str
    sets: dict[str, float]
    start: str = ""
    config: TrainConfig = field(default_factory=TrainConfig)
    scales: tuple[float, ...] = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    guard: tuple[str, ...] = ()
    tolerated: float = 0.004
    sentences: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)


def _equal(*names: str) -> dict[str, float]:
    return dict.fromkeys(names, 1.0)


_FAMILY = TrainConfig(steps=300, learning_rate=2e-4, eval_every=50)

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "general",
            {**_equal(*TEXT, *CODE, *TOOL, *INTENT), "wikisql": 0.5, **dict.fromkeys(INTENT, 0.4)},
            config=TrainConfig(steps=1200, eval_every=200),
            guard=(*TEXT_GUARD, *CODE_GUARD, *TOOL_GUARD),
        ),
        Recipe(
            "text",
            {"scifact": 4.0, "medquad": 0.5, "pubmedqa": 2.0, "openstax_text": 2.0},
            start="general",
            # A sharper softmax over many documents: +2 points on dev, and no loss on the guards.
            config=replace(
                _FAMILY,
                steps=700,
                learning_rate=5e-4,
                temperature=0.03,
                drift_weight=0.3,
                candidates=CandidateConfig(random=8000),
                eval_every=100,
                patience=20,
            ),
            guard=TEXT_GUARD,
            sentences=TEXT,
        ),
        Recipe(
            "code",
            {**_equal(*CODE), "wikisql": 0.5},
            start="general",
            config=replace(
                _FAMILY,
                steps=600,
                learning_rate=4e-4,
                temperature=0.03,
                candidates=CandidateConfig(random=8000),
                patience=20,
            ),
            guard=CODE_GUARD,
            seeds=(0, 1, 2),
        ),
        Recipe(
            "tool",
            _equal(*TOOL),
            start="general",
            # Few tools, many queries: longer or faster training forgets the tools it never saw.
            config=replace(_FAMILY, steps=160, learning_rate=1.5e-4, eval_every=40),
            guard=TOOL_GUARD,
        ),
        Recipe("image", _equal(*IMAGE), start="general", config=_FAMILY),
    )
}

TESTS = (
    *(f"{name}/test" for name in (*TEXT, *CODE, *TOOL, *INTENT)),
    "openstax_text/test_ood",
    *(f"{name}/test" for name in ("obliqa", "climate_fever_sent", "wikiqa")),
    *(f"{name}/test" for name in ("cranfield", "cacm", "med")),
    "cosqa/test",
    "text2sql_templates/test_ood",
    "metatool/test_unseen",
    "metatool/test_multi",
    "bfcl/test_live",
    "toollens/test",
    "sealtools/test_ood",
)
"""Splits that are reported; nothing is chosen by them."""
