"""The judgement of several re-executions as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from capsule import __version__, stats
from capsule.diff.several import label
from capsule.report.documents.comparison import rounded, verdict_to_json
from capsule.verdict.model import Counts
from capsule.verdict.several import JudgedPair, SeveralVerdict, exit_code
from capsule.verdict.spread import Spread

FORMAT = "capsule-several/1"


def several_to_json(verdict: SeveralVerdict) -> dict[str, Any]:
    """The same as a value of the schema `several-1`, each pair as one of `comparison-1` in it.

    Computed numbers have 12 significant digits: special functions differ in the last ones between
    builds.
    """
    return {
        "format": FORMAT,
        "tool": __version__,
        "verdict": verdict.word,
        "exit_code": exit_code(verdict),
        "sentence": verdict.sentence,
        "sides": [
            {"label": label(index), **asdict(side)} for index, side in enumerate(verdict.sides)
        ],
        "pairs": [_pair(pair) for pair in verdict.pairs],
        "metrics": [_spread(metric) for metric in verdict.metrics],
    }


def _pair(pair: JudgedPair) -> dict[str, Any]:
    return {
        "label": pair.label,
        "verdict": pair.word,
        "alpha": pair.alpha,
        "p_different": rounded(pair.p_different),
        "p_different_holm": rounded(pair.p_different_holm),
        "comparison": verdict_to_json(pair.verdict),
    }


def _spread(metric: Spread) -> dict[str, Any]:
    return {
        "metric": metric.metric,
        "unit": metric.unit,
        "direction": metric.direction,
        "kind": metric.kind,
        "scale": metric.scale,
        "alpha": metric.alpha,
        "sides": [None if counts is None else _counts(counts) for counts in metric.counts],
        "reproducibility": _precision(metric.precision) if metric.precision else None,
        "reproducibility_sentence": metric.precision_sentence,
        "mean": _mean(metric.mean) if metric.mean else None,
        "mean_sentence": metric.mean_sentence,
        "notes": list(metric.notes),
    }


def _counts(counts: Counts) -> dict[str, Any]:
    return {
        "seeds": list(counts.seeds),
        "values": counts.values,
        "independent": counts.independent,
        "failed": counts.failed,
        "missing": counts.missing,
        "mean": rounded(counts.mean),
        "sd": rounded(counts.sd),
    }


def _precision(found: stats.Precision) -> dict[str, Any]:
    return {
        "machines": found.sides,
        "runs": found.runs,
        "s_r": rounded(found.repeatability_sd),
        "s_L": rounded(found.between_sd),
        "s_R": rounded(found.reproducibility_sd),
        "interval": [rounded(found.lower), rounded(found.upper)],
        "limit": rounded(found.limit),
        "within_df": rounded(found.within_df),
        "equal_spread_p": rounded(found.equal_spread_p),
    }


def _mean(found: stats.Mean) -> dict[str, Any]:
    return {
        "machines": found.sides,
        "estimate": rounded(found.estimate),
        "interval": [rounded(found.lower), rounded(found.upper)],
        "standard_error": rounded(found.standard_error),
        "tau": rounded(found.between_sd),
        "df": rounded(found.df),
    }
