"""Judging the experts and the gate on labelled queries."""

from .measure import SetResult, measure_set
from .report import Figure, Report, summarise
from .sets import LabelledSet, read_set

__all__ = [
    "Figure",
    "LabelledSet",
    "Report",
    "SetResult",
    "measure_set",
    "read_set",
    "summarise",
]
