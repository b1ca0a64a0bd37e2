"""The sets that routing is judged by."""

from __future__ import annotations

from omniembed.experts.training.recipes import CODE, IMAGE, INTENT, TEXT, TOOL

SUITE_A = tuple(f"{name}/test" for name in (*TEXT, *CODE, *TOOL, *INTENT, *IMAGE))
"""In-domain tests of every training set."""

SUITE_B = (
    "cranfield/test",
    "cacm/test",
    "med/test",
    "obliqa/test",
    "wikiqa/test",
    "climate_fever_sent/test",
    "cosqa/test",
    "openstax_text/test_ood",
    "text2sql_templates/test_ood",
    "metatool/test_unseen",
    "bfcl/test_live",
    "toollens/test",
    "sealtools/test_ood",
    "coco_mini/test",
)
"""Out-of-domain tests; nothing is trained on them, and nothing chosen by them."""

KINDS = {
    "text": {
        *TEXT,
        "cranfield",
        "cacm",
        "med",
        "obliqa",
        "wikiqa",
        "climate_fever_sent",
    },
    "code": {*CODE, "cosqa", "text2sql_templates"},
    "tool": {*TOOL, *INTENT, "bfcl", "toollens"},
    "image": {*IMAGE, "coco_mini"},
}
"""Families of sets, which are those of one kind of document."""


def family(name: str) -> str:
    """Find the family of a split.

    Args:
        name: ``set/split``.

    Returns:
        The kind of its documents.
    """
    folder = name.split("/")[0]
    return next(kind for kind, sets in KINDS.items() if folder in sets)
