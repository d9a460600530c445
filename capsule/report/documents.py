"""Verdicts and records as JSON values: the same bytes for any order of runs, on any machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from capsule import __version__, summary
from capsule.diff import Side
from capsule.record import FrozenClaim, Record
from capsule.verdict import POWERS, Advice, Counts, Judged, Look, Verdict, exit_code

COMPARISON_FORMAT = "capsule-comparison/1"
SHOW_FORMAT = "capsule-show/1"
_LEVEL = 0.95


def to_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict as a value of the schema `comparison-1`.

    Computed numbers have 12 significant digits: special functions differ in the last ones between
    builds. Values of runs in sentences of exact claims are whole.
    """
    found = verdict.differences
    return {
        "format": COMPARISON_FORMAT,
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


def show_json(record: Record, capsule_id: str | None) -> dict[str, Any]:
    """A record's facts as a JSON value, raw samples left out."""
    return {
        "format": SHOW_FORMAT,
        "id": capsule_id,
        "name": record.manifest.name,
        "title": record.manifest.title,
        "uuid": record.uuid,
        "tool": record.tool,
        "verifies": record.verifies,
        "started": record.started,
        "ended": record.ended,
        "runtime": record.runtime,
        "contained": record.contained,
        "image": _image(record),
        "seeds": list(record.manifest.seeds),
        "plan_digest": record.plan_digest,
        "levels": dict(record.levels),
        "datasets": [asdict(dataset) for dataset in record.datasets],
        "nodes": [dict(node) for node in record.nodes],
        "claims": [{"metric": one.metric, **_claim(one)} for one in record.claims],
        "metrics": _metrics(record),
        "attempts": _attempts(record),
        "notes": list(record.notes),
    }


def _metrics(record: Record) -> dict[str, Any]:
    """As in `metrics.json`, and of runs of several calls how the calls lie."""
    found: dict[str, Any] = summary.metrics_document(record)["metrics"]
    for path, one in summary.run_values(record).items():
        for told, run in zip(found[path]["runs"], one.runs, strict=True):
            if calls := summary.calls(run):
                told["calls"] = _calls(calls)
    return found


def _calls(values: Sequence[float]) -> dict[str, Any]:
    from capsule import stats

    placed = stats.median_interval(values, level=_LEVEL)
    return {
        "values": len(values),
        "median_interval": [_rounded(end) for end in placed] if placed else None,
        "level": _LEVEL,
        "variation": _rounded(stats.variation(values)),
    }


def _side(side: Side) -> dict[str, Any]:
    return asdict(side)


def _judged(one: Judged) -> dict[str, Any]:
    return {
        "metric": one.metric,
        "claim": _claim(one.claim) if one.claim else None,
        "verdict": one.word,
        "unit": one.unit,
        "direction": one.direction,
        "kind": one.kind,
        "scale": one.scale,
        "method": one.method,
        "estimate": _rounded(one.estimate),
        "interval": [_rounded(one.lower), _rounded(one.upper)],
        "region": [_rounded(end) for end in one.region],
        "step": _rounded(one.step),
        "alpha_used": _rounded(one.alpha_used),
        "p_reproduced": _rounded(one.p_reproduced),
        "p_different": _rounded(one.p_different),
        "p_different_holm": _rounded(one.p_different_holm),
        "p_zero": _rounded(one.p_zero),
        "superiority": _rounded(one.superiority),
        "look": _look(one.look) if one.look else None,
        "seeds": one.seeds,
        "original": _counts(one.original),
        "rerun": _counts(one.rerun),
        "sentence": one.sentence,
        "advice": _advice(one.advice) if one.advice else None,
        "notes": list(one.notes),
    }


def _look(look: Look) -> dict[str, Any]:
    return {
        "planned": list(look.planned),
        "runs": look.runs,
        "number": look.number,
        "alpha": _rounded(look.alpha),
    }


def _advice(advice: Advice) -> dict[str, Any]:
    return {
        "answer": advice.answer,
        "powers": list(POWERS),
        "as_seen": list(advice.as_seen),
        "if_equal": list(advice.if_equal),
        "sentence": advice.sentence,
    }


def _claim(claim: FrozenClaim) -> dict[str, Any]:
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


def _counts(side: Counts) -> dict[str, Any]:
    return {
        "seeds": list(side.seeds),
        "values": side.values,
        "independent": side.independent,
        "failed": side.failed,
        "missing": side.missing,
        "failure_bound": _rounded(side.failure_bound),
        "mean": _rounded(side.mean),
        "sd": _rounded(side.sd),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.12g}") + 0.0  # no -0.0


def _image(record: Record) -> dict[str, Any] | None:
    image = record.image
    if image is None:
        return None
    return {
        "reference": image.reference,
        "pinned": image.pinned,
        "manifest_digest": str(image.manifest_digest) if image.manifest_digest else None,
        "index_digest": str(image.index_digest) if image.index_digest else None,
        "config_digest": str(image.config_digest),
        "platform": image.platform,
        "diff_ids": [str(layer.diff_id) for layer in image.layers],
        "override": record.image_override,
        "observations": dict(record.image_observations),
    }


def _attempts(record: Record) -> dict[str, int]:
    counts = Counter(attempt.outcome for attempt in record.attempts)
    return {name: counts[name] for name in ("completed", "failed", "interrupted")}
