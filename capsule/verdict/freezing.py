"""Turn what the author claims into numbers that no later run can move: done once, at sealing."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from capsule.errors import ManifestError
from capsule.manifest import Claim
from capsule.manifest.paths import match
from capsule.record import FrozenClaim
from capsule.summary import MetricRuns

_Ends = tuple[float | None, float | None]
_Source = Literal["author", "spread", "none"]
_Frozen = tuple[Literal["linear", "log"], _Ends, _Source]


def freeze(claims: Iterable[Claim], metrics: Mapping[str, MetricRuns]) -> tuple[FrozenClaim, ...]:
    """Resolve every `*` against the metrics at hand and compute every region from their runs.

    Args:
        claims: As the author wrote them.
        metrics: Metric path to the original's runs, as `summary.run_values` gives them.

    Returns:
        One frozen claim for each claim and matching metric, in the order of claims, then of paths.
        Without a usable value on the original's side a relative or default margin stays open:
        `margin_source` is then `none`, and the claim can only be INCONCLUSIVE.

    Raises:
        ManifestError: A claim matches no metric, or asks for `noninferiority` of a metric without
            a direction.
    """
    return tuple(
        _frozen(claim, metrics[path]) for claim in claims for path in _matching(claim, metrics)
    )


def _matching(claim: Claim, metrics: Mapping[str, MetricRuns]) -> list[str]:
    found = [path for path in sorted(metrics) if match(claim.metric, path)]
    if not found:
        near = difflib.get_close_matches(claim.metric, sorted(metrics), n=1, cutoff=0)
        raise ManifestError(
            f"the claim on {claim.metric} matches no metric",
            where="/claims",
            advice=f"the nearest metric is {near[0]}" if near else "there are no metrics at all",
        )
    return found


def _frozen(claim: Claim, metric: MetricRuns) -> FrozenClaim:
    scale, (lower, upper), source = _RULES[claim.type](claim, metric)
    return FrozenClaim(
        metric=metric.metric,
        type=claim.type,
        scale=scale,
        lower=lower,
        upper=upper,
        margin_source=source,
        alpha=claim.alpha,
        primary=claim.primary,
        pattern=claim,
    )


def _exact(_claim: Claim, _metric: MetricRuns) -> _Frozen:
    return "linear", (0.0, 0.0), "author"


def _ratio(_claim: Claim, _metric: MetricRuns) -> _Frozen:
    return "log", (None, None), "none"


def _threshold(claim: Claim, metric: MetricRuns) -> _Frozen:
    ends = (claim.at_least, claim.at_most)
    if not _skewed(metric) or any(end is not None and end <= 0 for end in ends):
        return "linear", ends, "author"
    lower, upper = (None if end is None else math.log(end) for end in ends)
    return "log", (lower, upper), "author"


def _skewed(metric: MetricRuns) -> bool:
    """Whether a metric is an error-like quantity, whose logarithm is nearer to symmetric.

    Student's t on raw skewed runs against a constant is wrong 13 to 14 % of the time. Chosen from
    the original alone: a choice that looks at the re-execution would be one more way to err.
    """
    values = metric.values
    return (
        metric.kind == "portable"
        and metric.direction == "lower"
        and bool(values)
        and min(values) > 0
    )


def _equivalence(claim: Claim, metric: MetricRuns) -> _Frozen:
    scale, margin, source = _margin(claim, metric)
    if margin is None:
        return scale, (None, None), "none"
    return scale, (-margin, margin), source


def _noninferiority(claim: Claim, metric: MetricRuns) -> _Frozen:
    if metric.direction == "none":
        raise ManifestError(
            f"noninferiority of {metric.metric} needs a metric with a direction",
            where="/claims",
            advice="give the metric the direction lower or higher, or claim equivalence",
        )
    scale, margin, source = _margin(claim, metric)
    if margin is None:
        return scale, (None, None), "none"
    return scale, (None, margin) if metric.direction == "lower" else (-margin, None), source


def _margin(
    claim: Claim, metric: MetricRuns
) -> tuple[Literal["linear", "log"], float | None, _Source]:
    margin = claim.margin
    if margin is None:
        return "linear", _spread(metric), "spread"
    if margin.ratio is not None:
        return "log", math.log(margin.ratio), "author"
    if margin.absolute is not None:
        return "linear", margin.absolute, "author"
    values = metric.values
    if not values or margin.relative is None:
        return "linear", None, "none"
    mean = math.fsum(value / len(values) for value in values)
    return "linear", margin.relative * abs(mean), "author"


def _spread(metric: MetricRuns) -> float | None:
    from capsule.stats import Runs
    from capsule.stats.margin import spread

    by_seed = {run.seed: run.value for run in metric.runs if run.value is not None}
    return spread(Runs.of(by_seed, resolution=metric.resolution))


_RULES: Mapping[str, Callable[[Claim, MetricRuns], _Frozen]] = {
    "exact": _exact,
    "ratio": _ratio,
    "threshold": _threshold,
    "equivalence": _equivalence,
    "noninferiority": _noninferiority,
}
