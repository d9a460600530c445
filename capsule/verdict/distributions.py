"""Claims on a distribution: the samples of all runs of a side, such as latencies, pooled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from capsule import population, stats
from capsule.diff import Pair
from capsule.notes import Note
from capsule.record import FrozenClaim
from capsule.summary import MetricRuns
from capsule.verdict import advising, wording
from capsule.verdict.model import Advice, Judged

# equal populations of one run a side would be called DIFFERENT in 40 to 90 % of cases
_ONE_RUN = (
    "a distribution is compared from two runs a side on: one run shows nothing of what differs"
    " between runs"
)


def judge(blank: Judged, pair: Pair, claim: FrozenClaim) -> Judged:
    """Kolmogorov's distance of the pooled samples, held against the distance that is allowed."""
    assert pair.original is not None
    assert pair.rerun is not None
    assert claim.upper is not None
    there, here = (_series(side) for side in (pair.original, pair.rerun))
    a, b = stats.pool(there), stats.pool(here)
    if a is None or b is None:
        side = "original" if a is None else "re-execution"
        return replace(
            blank,
            sentence=f"a distribution is of samples inside runs, and a run of the {side} has none"
            " or one",
        )
    if len(there) < 2 or len(here) < 2:
        advice = advising.ORIGINAL_OF_ONE_RUN if len(there) < 2 else None
        return replace(blank, sentence=_ONE_RUN, advice=advice)
    band = stats.kolmogorov(
        a.values,
        b.values,
        effective_a=a.effective,
        effective_b=b.effective,
        alpha=blank.level,
    )
    decision = band.decide(claim.upper)
    judged = replace(
        blank,
        word=decision.word,
        method="kolmogorov",
        estimate=band.distance,
        lower=band.lower,
        upper=band.upper,
        alpha_used=band.alpha,
        p_reproduced=decision.p_reproduced,
        p_different=decision.p_different,
        sentence=wording.distribution(
            decision.word, (band.distance, band.lower, band.upper), claim.upper
        ),
        notes=(*blank.notes, *_notes(pair, a, b)),
    )
    if decision.word != "INCONCLUSIVE":
        return judged
    return replace(judged, advice=_advice(a, band.distance, claim.upper, blank.level))


def _series(metric: MetricRuns) -> list[Sequence[float]]:
    """The samples of every independent run that has a value."""
    runs = population.independent(metric).runs
    return [population.series(run) for run in runs if run.value is not None]


def _notes(pair: Pair, a: stats.Pool, b: stats.Pool) -> Iterator[Note]:
    yield Note(
        code="independent-samples",
        sentence=f"{len(a.values)} samples of the original are worth"
        f" {wording.number(a.effective)} independent ones, {len(b.values)} of the re-execution"
        f" {wording.number(b.effective)}",
    )
    for name, side, runs in (
        ("original", a, pair.original),
        ("re-execution", b, pair.rerun),
    ):
        if runs is not None and 2 * side.unsettled > len(runs.values):
            yield Note(
                code="late-settling",
                sentence=f"most runs of the {name} settle only later: a longer warm-up is advised",
            )


def _advice(a: stats.Pool, distance: float, allowed: float, alpha: float) -> Advice:
    def count(power: float) -> int | None:
        return stats.samples_beside(a.effective, allowed, alpha=alpha, power=power)

    return advising.samples(count, possible=distance != allowed)
