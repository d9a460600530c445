"""Intervals, regions and multiplicity as pure functions on the values of runs.

Imports nothing but numpy and scipy.special; they cost 0.35 s, so no other room imports this one
at its top level.
"""

from capsule.stats.decision import Decision, Region, Word, decide
from capsule.stats.interval import Interval, Method, location, shift
from capsule.stats.multiplicity import fisher_more, holm
from capsule.stats.power import Answer, runs_needed
from capsule.stats.runs import Runs

__all__ = [
    "Answer",
    "Decision",
    "Interval",
    "Method",
    "Region",
    "Runs",
    "Word",
    "decide",
    "fisher_more",
    "holm",
    "location",
    "runs_needed",
    "shift",
]
