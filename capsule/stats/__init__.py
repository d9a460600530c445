"""Intervals, regions and multiplicity as pure functions on the values of runs.

Imports nothing but numpy and scipy.special. They cost 0.1 s, so a name is fetched from its module
when it is first used: importing this room is cheap, and every other room does it at its top.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from capsule.stats.curves import Curve, CurveDecision, common_grid, curve_shift, runs_at
    from capsule.stats.decision import Decision, Region, Word, decide
    from capsule.stats.distribution import MOST_SAMPLES, Shares, reduce_to_shares, samples_for_sd
    from capsule.stats.failures import failure_bound, fisher_more, runs_to_lift, veto
    from capsule.stats.interval import (
        Interval,
        Method,
        location,
        one_set,
        paired_level,
        paired_shift,
        shift,
    )
    from capsule.stats.looks import default_alpha, nominal_alpha
    from capsule.stats.margin import c4
    from capsule.stats.multiplicity import holm, p_beyond, p_beyond_of_pairs
    from capsule.stats.outliers import has_outlier
    from capsule.stats.planning import (
        narrowest_margin,
        narrowest_paired_margin,
        runs_for_margin,
    )
    from capsule.stats.power import Answer, runs_to_decide
    from capsule.stats.ranks import superiority
    from capsule.stats.rates import (
        p_past,
        p_within,
        runs_to_confirm_rate,
        runs_without_failure,
    )
    from capsule.stats.reproducibility import Mean, Precision, precision, random_effects_mean
    from capsule.stats.runs import Runs
    from capsule.stats.series import (
        effective_sample_size,
        median_interval,
        mser5,
        percentile_interval,
        variation,
    )
    from capsule.stats.signs import FEWEST_BLOCKS, blocks
    from capsule.stats.summaries import Summary, summary_part, summary_shift

__all__ = [
    "FEWEST_BLOCKS",
    "MOST_SAMPLES",
    "Answer",
    "Curve",
    "CurveDecision",
    "Decision",
    "Interval",
    "Mean",
    "Method",
    "Precision",
    "Region",
    "Runs",
    "Shares",
    "Summary",
    "Word",
    "blocks",
    "c4",
    "common_grid",
    "curve_shift",
    "decide",
    "default_alpha",
    "effective_sample_size",
    "failure_bound",
    "fisher_more",
    "has_outlier",
    "holm",
    "location",
    "median_interval",
    "mser5",
    "narrowest_margin",
    "narrowest_paired_margin",
    "nominal_alpha",
    "one_set",
    "p_beyond",
    "p_beyond_of_pairs",
    "p_past",
    "p_within",
    "paired_level",
    "paired_shift",
    "percentile_interval",
    "precision",
    "random_effects_mean",
    "reduce_to_shares",
    "runs_at",
    "runs_for_margin",
    "runs_to_confirm_rate",
    "runs_to_decide",
    "runs_to_lift",
    "runs_without_failure",
    "samples_for_sd",
    "shift",
    "summary_part",
    "summary_shift",
    "superiority",
    "variation",
    "veto",
]

_HOMES = {
    "FEWEST_BLOCKS": "signs",
    "MOST_SAMPLES": "distribution",
    "Answer": "power",
    "Curve": "curves",
    "CurveDecision": "curves",
    "Decision": "decision",
    "Interval": "interval",
    "Mean": "reproducibility",
    "Method": "interval",
    "Precision": "reproducibility",
    "Region": "decision",
    "Runs": "runs",
    "Shares": "distribution",
    "Summary": "summaries",
    "Word": "decision",
    "blocks": "signs",
    "c4": "margin",
    "common_grid": "curves",
    "curve_shift": "curves",
    "decide": "decision",
    "default_alpha": "looks",
    "effective_sample_size": "series",
    "failure_bound": "failures",
    "fisher_more": "failures",
    "has_outlier": "outliers",
    "holm": "multiplicity",
    "location": "interval",
    "median_interval": "series",
    "mser5": "series",
    "narrowest_margin": "planning",
    "narrowest_paired_margin": "planning",
    "nominal_alpha": "looks",
    "one_set": "interval",
    "p_beyond": "multiplicity",
    "p_beyond_of_pairs": "multiplicity",
    "p_past": "rates",
    "p_within": "rates",
    "paired_level": "interval",
    "paired_shift": "interval",
    "percentile_interval": "series",
    "precision": "reproducibility",
    "random_effects_mean": "reproducibility",
    "reduce_to_shares": "distribution",
    "runs_at": "curves",
    "runs_for_margin": "planning",
    "runs_to_confirm_rate": "rates",
    "runs_to_decide": "power",
    "runs_to_lift": "failures",
    "runs_without_failure": "rates",
    "samples_for_sd": "distribution",
    "shift": "interval",
    "summary_part": "summaries",
    "summary_shift": "summaries",
    "superiority": "ranks",
    "variation": "series",
    "veto": "failures",
}

if not TYPE_CHECKING:  # with it in sight mypy would take any name for one of this room

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
