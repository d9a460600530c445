"""Intervals, regions and multiplicity as pure functions on the values of runs.

Imports nothing but numpy and scipy.special; they cost 0.35 s, so no other room imports this one
at its top level.
"""

from capsule.stats.curves import Curve, CurveDecision, curve_shift
from capsule.stats.decision import Decision, Region, Word, decide
from capsule.stats.distribution import Band, kolmogorov
from capsule.stats.failures import failure_bound, fisher_more
from capsule.stats.interval import Interval, Method, location, paired, shift
from capsule.stats.looks import nominal_alpha
from capsule.stats.multiplicity import holm
from capsule.stats.planning import narrowest_margin, runs_for_margin
from capsule.stats.power import Answer, runs_needed, runs_to_confirm
from capsule.stats.ranks import superiority
from capsule.stats.runs import Runs
from capsule.stats.series import effective_sample_size, median_interval, mser5, variation
from capsule.stats.summaries import Summary, summary_shift

__all__ = [
    "Answer",
    "Band",
    "Curve",
    "CurveDecision",
    "Decision",
    "Interval",
    "Method",
    "Region",
    "Runs",
    "Summary",
    "Word",
    "curve_shift",
    "decide",
    "effective_sample_size",
    "failure_bound",
    "fisher_more",
    "holm",
    "kolmogorov",
    "location",
    "median_interval",
    "mser5",
    "narrowest_margin",
    "nominal_alpha",
    "paired",
    "runs_for_margin",
    "runs_needed",
    "runs_to_confirm",
    "shift",
    "summary_shift",
    "superiority",
    "variation",
]
