"""Claims on a distribution: the samples of all runs of a side, such as latencies, pooled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from capsule import population, stats
from capsule.diff import Pair
from capsule.notes import Note
from capsule.record import FrozenClaim
from capsule.summary import MetricRuns
from capsule.verdict import advising, wording, words
from capsule.verdict.model import Advice, Judged


def judge(blank: Judged, pair: Pair, claim: FrozenClaim) -> Judged:
    """Kolmogorov's distance of the pooled samples, held against the distance that is allowed."""
    assert pair.original is not None
    assert pair.rerun is not None
    assert claim.upper is not None
    there, here = (_series(side) for side in (pair.original, pair.rerun))
    a, b = stats.pool(there), stats.pool(here)
    if a is None or b is None:
        side = "original" if a is None else "re-run"
        return replace(blank, sentence=words.JUDGEMENTS("no-samples", side=side))
    # equal populations of one run a side would be called DIFFERENT in 40 to 90 % of cases
    if len(there) < 2 or len(here) < 2:
        advice = advising.ORIGINAL_OF_ONE_RUN if len(there) < 2 else None
        return replace(blank, sentence=words.JUDGEMENTS("one-run-of-samples"), advice=advice)
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
        sentence=words.judgements.distribution(
            word=decision.word,
            shown=wording.limits(band.distance, band.lower, band.upper, log=False),
            allowed=claim.upper,
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
    yield words.NOTES(
        "independent-samples",
        there=len(a.values),
        there_effective=a.effective,
        here=len(b.values),
        here_effective=b.effective,
    )
    for name, side, runs in (
        ("original", a, pair.original),
        ("re-run", b, pair.rerun),
    ):
        if runs is not None and 2 * side.unsettled > len(runs.values):
            yield words.NOTES("late-settling", side=name)


def _advice(a: stats.Pool, distance: float, allowed: float, alpha: float) -> Advice:
    def count(power: float) -> int | None:
        return stats.samples_beside(a.effective, allowed, alpha=alpha, power=power)

    return advising.samples(count, possible=distance != allowed)
