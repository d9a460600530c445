"""A verdict as a JSON value: the same bytes for any order of runs, on any machine."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from capsule import __version__
from capsule.diff import Side
from capsule.record import FrozenClaim
from capsule.verdict import POWERS, Advice, Counts, Judged, Look, Verdict, exit_code

FORMAT = "capsule-comparison/1"


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict as a value of the schema `comparison-1`.

    Computed numbers have 12 significant digits: special functions differ in the last ones between
    builds. Values of runs in sentences of exact claims are whole.
    """
    found = verdict.differences
    return {
        "format": FORMAT,
        "tool": __version__,
        "verdict": verdict.word,
        "exit_code": exit_code(verdict),
        "sentence": verdict.sentence,
        "sides": {"original": _side(found.original), "rerun": _side(found.rerun)},
        "image": found.image,
        "claims": [_judged(one) for one in verdict.claims],
        "reported": [_judged(one) for one in verdict.reported],
        "differences": [asdict(fact) for fact in found.facts],
        "notes": list(found.notes),
    }


def _side(side: Side) -> dict[str, Any]:
    return asdict(side)


def _judged(one: Judged) -> dict[str, Any]:
    return {
        "metric": one.metric,
        "claim": claim_to_json(one.claim) if one.claim else None,
        "verdict": one.word,
        "unit": one.unit,
        "direction": one.direction,
        "kind": one.kind,
        "scale": one.scale,
        "method": one.method,
        "estimate": rounded(one.estimate),
        "interval": [rounded(one.lower), rounded(one.upper)],
        "region": [rounded(end) for end in one.region],
        "step": rounded(one.step),
        "alpha_used": rounded(one.alpha_used),
        "p_reproduced": rounded(one.p_reproduced),
        "p_different": rounded(one.p_different),
        "p_different_holm": rounded(one.p_different_holm),
        "p_zero": rounded(one.p_zero),
        "superiority": rounded(one.superiority),
        "look": _look(one.look) if one.look else None,
        "seeds": one.seeds,
        "original": counts_to_json(one.original),
        "rerun": counts_to_json(one.rerun),
        "sentence": one.sentence,
        "advice": _advice(one.advice) if one.advice else None,
        "notes": list(one.notes),
    }


def _look(look: Look) -> dict[str, Any]:
    return {
        "planned": list(look.planned),
        "runs": look.runs,
        "number": look.number,
        "alpha": rounded(look.alpha),
    }


def _advice(advice: Advice) -> dict[str, Any]:
    return {
        "answer": advice.answer,
        "powers": list(POWERS),
        "as_seen": list(advice.as_seen),
        "if_equal": list(advice.if_equal),
        "sentence": advice.sentence,
    }


def claim_to_json(claim: FrozenClaim) -> dict[str, Any]:
    """A claim as every document tells it."""
    return {
        "pattern": claim.pattern.metric,
        "type": claim.type,
        "primary": claim.primary,
        "alpha": claim.alpha,
        "scale": claim.scale,
        "region": [claim.lower, claim.upper],
        "margin_source": claim.margin_source,
        "looks": list(claim.looks),
        "paired": claim.paired,
        "resolution": claim.resolution,
        "published": asdict(claim.pattern.published) if claim.pattern.published else None,
    }


def counts_to_json(side: Counts) -> dict[str, Any]:
    """The runs of one side."""
    return {
        "seeds": list(side.seeds),
        "values": side.values,
        "independent": side.independent,
        "failed": side.failed,
        "missing": side.missing,
        "failure_bound": rounded(side.failure_bound),
        "mean": rounded(side.mean),
        "sd": rounded(side.sd),
    }


def rounded(value: float | None) -> float | None:
    """Twelve digits; None for no number, and for an infinite one."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.12g}") + 0.0  # no -0.0
