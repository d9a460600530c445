"""The judgement of several re-executions as JSON."""

from __future__ import annotations

from capsule import __version__, stats
from capsule.diff.several import label
from capsule.jsons import Json
from capsule.report.documents.comparison import (
    notes_to_json,
    round_digits,
    sentence_to_json,
    side_to_json,
    verdict_to_json,
)
from capsule.verdict.model import Counts
from capsule.verdict.several import JudgedPair, SeveralVerdict, error_rate, exit_code
from capsule.verdict.spread import Spread

FORMAT = "capsule-several/1"


def several_to_json(verdict: SeveralVerdict) -> dict[str, Json]:
    """The same as a value of the schema `several-1`, each pair as one of `comparison-1` in it.

    Computed numbers have 12 significant digits: special functions differ in the last ones between
    builds.
    """
    return {
        "format": FORMAT,
        "tool": __version__,
        "verdict": verdict.word,
        "exit_code": exit_code(verdict),
        "code": verdict.sentence.code,
        "sentence": verdict.sentence,
        "error_rate": sentence_to_json(error_rate(verdict)),
        "sides": [
            {"label": label(index), **side_to_json(side)}
            for index, side in enumerate(verdict.sides)
        ],
        "pairs": [_pair(pair) for pair in verdict.pairs],
        "metrics": [_spread(metric) for metric in verdict.metrics],
    }


def _pair(pair: JudgedPair) -> dict[str, Json]:
    return {
        "label": pair.label,
        "verdict": pair.word,
        "alpha": pair.alpha,
        "p_different": round_digits(pair.p_different),
        "p_different_holm": round_digits(pair.p_different_holm),
        "comparison": verdict_to_json(pair.verdict),
    }


def _spread(metric: Spread) -> dict[str, Json]:
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
        "notes": notes_to_json(metric.notes),
    }


def _counts(counts: Counts) -> dict[str, Json]:
    return {
        "seeds": list(counts.seeds),
        "values": counts.values,
        "independent": counts.independent,
        "failed": counts.failed,
        "missing": counts.missing,
        "mean": round_digits(counts.mean),
        "sd": round_digits(counts.sd),
        "unit": counts.unit,
    }


def _precision(precision: stats.Precision) -> dict[str, Json]:
    return {
        "machines": precision.sides,
        "runs": precision.runs,
        "s_r": round_digits(precision.repeatability_sd),
        "s_L": round_digits(precision.between_sd),
        "s_R": round_digits(precision.reproducibility_sd),
        "interval": [round_digits(precision.lower), round_digits(precision.upper)],
        "limit": round_digits(precision.limit),
        "within_df": round_digits(precision.within_df),
        "equal_spread_p": round_digits(precision.equal_spread_p),
    }


def _mean(mean: stats.Mean) -> dict[str, Json]:
    return {
        "machines": mean.sides,
        "estimate": round_digits(mean.estimate),
        "interval": [round_digits(mean.lower), round_digits(mean.upper)],
        "standard_error": round_digits(mean.standard_error),
        "tau": round_digits(mean.between_sd),
        "df": round_digits(mean.df),
    }
