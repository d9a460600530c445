"""Turn what the author claims into numbers that no later run can move: done once, at sealing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from capsule import averages, population, stats, summary
from capsule.errors import ManifestError
from capsule.manifest import Claim, Margin, looks
from capsule.manifest.model import CURVE_SPREADS, PRESETS
from capsule.manifest.paths import match
from capsule.record import FrozenClaim
from capsule.summary import MetricRuns

# what a paper that does not tell its number of runs is taken to have
UNKNOWN_RUNS = 3
# a margin of this many steps is no longer moved by where on a step it lies
COUNTED_STEPS = 10
_ROUNDING = 1e-9

_Ends = tuple[float | None, float | None]
_Source = Literal["author", "spread", "none"]
_Frozen = tuple[Literal["linear", "log"], _Ends, _Source]

# these have a margin that a shift may not leave
_SHIFTS = ("equivalence", "noninferiority", "prediction", "curve")


def freeze(claims: Iterable[Claim], metrics: Mapping[str, MetricRuns]) -> tuple[FrozenClaim, ...]:
    """Resolve every `*` against the metrics at hand and compute every region from their runs.

    Args:
        claims: As the author wrote them.
        metrics: Metric path to the original's runs, as `summary.run_values` gives them.

    Returns:
        One frozen claim for each claim and matching metric, in the order of claims, then of paths.
        Without a usable value on the original's side a relative or default margin stays open:
        `margin_source` is then `none`, and the claim can only be INCONCLUSIVE. Looks that nobody
        planned are as many re-run seeds as the original has runs, then twice as many.

    Raises:
        ManifestError: A claim matches no metric, or asks for `noninferiority` of a metric without
            a direction.
    """
    return tuple(follow(claims, metrics))


def follow(claims: Iterable[Claim], metrics: Mapping[str, MetricRuns]) -> Iterator[FrozenClaim]:
    """Yield the result of `freeze`, each claim when it is requested.

    Raises:
        ManifestError: As `freeze`.
    """
    written = tuple(claims)
    runs = max((len(metric.runs) for metric in metrics.values()), default=0)
    plan, paths = looks.plan(written, runs), sorted(metrics)
    for claim in written:
        for path in _matching(claim, paths, metrics):
            yield _freeze_one(claim, metrics[path], plan)


def is_of_runs(claim: Claim) -> bool:
    """Return whether a claim's margin depends on the original's runs."""
    margin = claim.margin or Margin()
    if claim.type not in _SHIFTS or margin.ratio is not None or margin.absolute is not None:
        return False
    return claim.published is None or margin.relative is None


def spreads(claim: Claim) -> float | None:
    """Return the claim's margin in standard deviations between runs; None if given otherwise.

    >>> spreads(Claim(metric="a/b/c/d", type="equivalence"))
    2.0
    """
    margin = claim.margin
    if margin is None:
        return CURVE_SPREADS if claim.type == "curve" else PRESETS["default"]
    return margin.sd if margin.preset is None else PRESETS[margin.preset]


def fraction_error(metric: MetricRuns) -> float:
    """Return the standard error of a fraction of the test set; 0 for other metrics.

    Returns:
        In the metric's unit: a fraction of `1`, or of 100 where the unit is `%`.
    """
    values = population.independent(metric).values
    whole = 100.0 if metric.unit == "%" else 1.0
    if metric.test_set is None or not values or not 0 <= min(values) <= max(values) <= whole:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(mean * (whole - mean) / metric.test_set)


def curve_spread(metric: MetricRuns) -> float | None:
    """Return the median over all common steps of the standard deviation between runs.

    Returns:
        In the metric's unit, unbiased for normal runs; None for fewer than two curves.
    """
    curves = population.curves(population.independent(metric))
    grid = stats.common_grid(list(curves.values()))
    if len(curves) < 2 or not grid:
        return None
    middle = averages.median([runs.sd for runs in stats.runs_at(curves, grid)])
    return None if middle is None else middle / stats.c4(len(curves))


def _matching(claim: Claim, paths: Sequence[str], metrics: Mapping[str, MetricRuns]) -> list[str]:
    is_named = not claim.metric.endswith("/*")
    matching = [
        path
        for path in paths
        if match(claim.metric, path) and (is_named or not metrics[path].is_named_only)
    ]
    if not matching:
        import difflib

        near = difflib.get_close_matches(claim.metric, paths, n=1, cutoff=0)
        raise ManifestError(
            f"the claim's metric {claim.metric} matches no metric of the manifest",
            where="/claims",
            advice=f"did you mean {near[0]}?" if near else "declare the metric in the manifest",
        )
    return matching


def _freeze_one(claim: Claim, metric: MetricRuns, plan: tuple[int, ...]) -> FrozenClaim:
    metric = summary.values_for(claim, metric)
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
        looks=looks.of(claim, plan),
        paired=claim.paired,
        resolution=claim.resolution,
    )


def _exact(_claim: Claim, _metric: MetricRuns) -> _Frozen:
    return "linear", (0.0, 0.0), "author"


def _ratio(_claim: Claim, _metric: MetricRuns) -> _Frozen:
    return "log", (None, None), "none"


def _threshold(claim: Claim, _metric: MetricRuns) -> _Frozen:
    ends = (claim.at_least, claim.at_most)
    if claim.mean == "arithmetic":
        return "linear", ends, "author"
    lower, upper = (None if end is None else math.log(end) for end in ends)
    return "log", (lower, upper), "author"


def _bound(claim: Claim, _metric: MetricRuns) -> _Frozen:
    return "linear", (claim.at_least, claim.at_most), "author"


def _equivalence(claim: Claim, metric: MetricRuns) -> _Frozen:
    scale, margin, source = _margin(claim, metric)
    if margin is None:
        return scale, (None, None), "none"
    return scale, (-margin, margin), source


def _distribution(claim: Claim, _metric: MetricRuns) -> _Frozen:
    assert claim.margin is not None, "the manifest's schema requires the margin"
    return "linear", (None, claim.margin.distance), "author"


def _noninferiority(claim: Claim, metric: MetricRuns) -> _Frozen:
    if metric.direction == "none":
        raise ManifestError(
            f"{metric.metric} has direction none, a noninferiority claim needs lower or higher",
            where="/claims",
            advice='set "direction" of the metric to "lower" or "higher", or claim equivalence',
        )
    scale, margin, source = _margin(claim, metric)
    if margin is None:
        return scale, (None, None), "none"
    return scale, (None, margin) if metric.direction == "lower" else (-margin, None), source


def _margin(
    claim: Claim, metric: MetricRuns
) -> tuple[Literal["linear", "log"], float | None, _Source]:
    margin = claim.margin or Margin()
    if margin.ratio is not None:
        return "log", math.log(margin.ratio), "author"
    if margin.absolute is not None:
        return "linear", margin.absolute, "author"
    if margin.relative is not None:
        mean = _mean(claim, metric)
        return "linear", None if mean is None else _finite(margin.relative * abs(mean)), "author"
    return "linear", _spread(claim, metric), "spread"


def _finite(margin: float) -> float | None:
    """Check that a margin is finite."""
    return margin if math.isfinite(margin) else None


def _mean(claim: Claim, metric: MetricRuns) -> float | None:
    if claim.published is not None:
        return claim.published.mean
    values = population.independent(metric).values
    return math.fsum(value / len(values) for value in values) if values else None


def _spread(claim: Claim, metric: MetricRuns) -> float | None:
    """Return the requested number of standard deviations, at least the effect of rounding.

    Of a number that moves in steps the margin is put halfway between two of them where it would
    lie below that: rank limits sit on whole steps, and a margin there loses power for nothing.
    """
    sd = _sd_between(claim, metric)
    wanted = spreads(claim)
    if sd is None or wanted is None:
        return None
    step = metric.resolution if claim.resolution is None else claim.resolution
    margin = max(wanted * sd, 1.5 * step, fraction_error(metric))
    if 0 < margin < COUNTED_STEPS * step:
        # in another unit the same margin may be 3.999... steps
        margin = max(margin, (math.floor(margin / step + _ROUNDING) + 0.5) * step)
    return _finite(margin)


def _sd_between(claim: Claim, metric: MetricRuns) -> float | None:
    """Return the original's standard deviation between runs, unbiased for normal values."""
    if claim.type == "curve":
        return curve_spread(metric)
    if claim.published is not None:
        return claim.published.sd / stats.c4(claim.published.n or UNKNOWN_RUNS)
    runs = population.runs(population.independent(metric))
    return runs.sd / stats.c4(runs.n) if runs.n >= 2 else None


_RULES: Mapping[str, Callable[[Claim, MetricRuns], _Frozen]] = {
    "exact": _exact,
    "ratio": _ratio,
    "threshold": _threshold,
    "bound": _bound,
    "equivalence": _equivalence,
    "noninferiority": _noninferiority,
    "prediction": _equivalence,
    "curve": _equivalence,
    "distribution": _distribution,
}
