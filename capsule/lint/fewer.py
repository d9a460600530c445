"""What lets fewer runs confirm a claim: more published seeds, and values that scatter less."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from capsule import reduction, stats, summary
from capsule.manifest import looks
from capsule.manifest.model import Claim, Manifest
from capsule.manifest.paths import match, matches
from capsule.record import FrozenClaim, Record
from capsule.summary import MetricRuns

ENOUGH_SEEDS = 10
_SHIFTS = ("equivalence", "noninferiority", "prediction")
_BOTH_WAYS = ("equivalence", "prediction")
_LAST = 3
_LEVEL = 0.95


def hints(manifest: Manifest) -> list[str]:
    """What an author could do, before a day of measuring, for fewer runs to confirm the claims.

    One sentence each; empty when nothing is known to help.
    """
    return [*_more_seeds(manifest), *_less_scatter(manifest)]


def hints_of_runs(record: Record) -> list[str]:
    """The same of an author who has runs already: how much less the mean of evaluations scatters.

    Args:
        record: With its frozen claims, whose margins are kept as they are.
    """
    metrics = summary.run_values(record)
    own = _scatter_of_runs(record.claims, metrics)
    return [*_more_seeds(record.manifest), *dict.fromkeys(own)]


def _more_seeds(manifest: Manifest) -> Iterator[str]:
    seeds = len(manifest.seeds)
    if seeds < ENOUGH_SEEDS and any(claim.type in _SHIFTS for claim in manifest.claims):
        # simulated with the margin as it is frozen, and checked by tests/lint/test_fewer.py
        yield (
            f"publish {ENOUGH_SEEDS} seeds instead of {seeds} where a run is not too dear: with"
            ' "looks": [4, 8] four re-runs confirm a default margin in 62 % of'
            " cases after ten published seeds, 44 % after five, 15 % after three, and by the second"
            " look eight in 92, 72 and 32 %, if nothing changed"
        )


def _less_scatter(manifest: Manifest) -> Iterator[str]:
    for claim in manifest.claims:
        if claim.type not in (*_SHIFTS, "threshold") or _has_mean(claim, manifest.claims):
            continue
        if not any(
            metric.per == "step" for _, metric in matches(claim.metric, manifest.benchmarks)
        ):
            continue
        sentence = (
            f"{claim.metric}: a single evaluation is judged, the last; the mean of the last"
            f' {_LAST}, "value": {{"mean_of_last": {_LAST}}}, has 30 to 60 % of its variance on'
            " published learning curves"
        )
        plan = looks.of(claim, looks.plan(manifest.claims, len(manifest.seeds)))
        if _is_between_runs(claim) and len(manifest.seeds) > 1:
            level = stats.nominal_alpha(claim.alpha, len(plan))
            alone, averaged = (
                stats.confirmation_probability(sd, len(manifest.seeds), plan[0], alpha=level)
                for sd in (2.0, 2.0 * math.sqrt(2))
            )
            sentence += (
                f": at half of it {plan[0]} re-runs, the first look, confirm a margin of two sd of"
                f" single evaluations in {_percent(averaged)} of cases, not in {_percent(alone)}"
            )
        yield sentence


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _is_between_runs(claim: Claim) -> bool:
    """Whether two sides of runs are held against a margin both ways, which can be foretold."""
    return claim.type in _BOTH_WAYS and not claim.paired and claim.published is None


def _has_mean(claim: Claim, claims: Sequence[Claim]) -> bool:
    return any(one.mean_of_last and match(one.metric, claim.metric) for one in claims)


def _scatter_of_runs(
    claims: Sequence[FrozenClaim], metrics: Mapping[str, MetricRuns]
) -> Iterator[str]:
    for claim in claims:
        last = claim.pattern.mean_of_last or _LAST
        if claim.type not in (*_SHIFTS, "threshold") or last == 1 or claim.metric not in metrics:
            continue
        pairs = list(_both_values(metrics[claim.metric], last, log=claim.scale == "log"))
        if len(pairs) < 2:
            continue
        means, values = zip(*pairs, strict=True)
        ratio = stats.variance_ratio(means, values, level=_LEVEL)
        if ratio is None:
            continue
        share, low, high = (f"{100 * part:.3g}" for part in ratio)
        sentence = (
            f"{claim.metric}: over {len(pairs)} runs the mean of the last {last} evaluations has"
            f" {share} % of the variance of the last one ({low} to {high} %)"
        )
        yield sentence + _confirmation(claim, means, values)


def _both_values(metric: MetricRuns, last: int, *, log: bool) -> Iterator[tuple[float, float]]:
    """Of each independent run the mean of its last evaluations, and the last one alone."""
    for run in metric.runs:
        if run.series is None or run.trajectory not in (None, run.seed):
            continue
        mean, value = (reduction.mean_of_last(run.series, k) for k in (last, 1))
        if mean is None or value is None or (log and min(mean, value) <= 0):
            continue
        yield (math.log(mean), math.log(value)) if log else (mean, value)


def _confirmation(claim: FrozenClaim, means: Sequence[float], values: Sequence[float]) -> str:
    """What that does to the frozen margin at the first look, if runs scatter as these did."""
    margin = claim.upper
    if not _is_between_runs(claim.pattern) or not margin:
        return ""
    level = stats.nominal_alpha(claim.alpha, len(claim.looks))
    alone, averaged = (
        stats.confirmation_probability(
            margin / stats.Runs.of(dict(enumerate(side))).sd,
            len(side),
            claim.looks[0],
            alpha=level,
        )
        for side in (values, means)
    )
    shown = f"{margin:.3g}" if claim.scale == "linear" else f"a factor of {math.exp(margin):.3g}"
    return (
        f": {claim.looks[0]} re-runs, the first look, confirm {shown} in"
        f" {_percent(averaged)} of cases by the mean and in {_percent(alone)} by the last, if runs"
        " scatter as these did and nothing changed"
    )
