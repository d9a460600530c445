"""Claims on a distribution: the samples inside runs, such as latencies, with runs as the sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from capsule import population, stats
from capsule.diff import Pair
from capsule.notes import Note
from capsule.record import FrozenClaim
from capsule.sentences import about
from capsule.summary import MetricRuns
from capsule.verdict import advising, wording, words
from capsule.verdict.model import Judged

_SETTLED = 0.1  # part of a run's samples that a longer warm-up may cut without a note


def judge(blank: Judged, pair: Pair, claim: FrozenClaim) -> Judged:
    """Hold the runs' shares of samples at or below each threshold against the allowed distance."""
    assert pair.original is not None
    assert pair.rerun is not None
    assert claim.upper is not None
    there, here = (_series(side) for side in (pair.original, pair.rerun))
    for name, runs in (("original", there), ("re-run", here)):
        if not runs or min(map(len, runs)) < 2:
            return replace(blank, sentence=words.JUDGEMENTS("no-samples", side=name))
    # how far runs lie apart is the whole evidence: one run on a side has none
    if len(there) < 2 or len(here) < 2:
        advice = advising.ORIGINAL_OF_ONE_RUN if len(there) < 2 else None
        return replace(blank, sentence=words.JUDGEMENTS("one-run-of-samples"), advice=advice)
    shares = stats.reduce_to_shares(there, here)
    decision = stats.curve_shift(
        shares.original,
        shares.rerun,
        margin=claim.upper,
        alpha=blank.level,
        resolution=shares.resolution,
    )
    interval, place = decision.interval, decision.worst_step
    assert interval is not None
    assert place is not None
    distance, lower, upper = _fold(interval)
    judged = replace(
        blank,
        word=decision.word,
        method="shares",
        estimate=distance,
        lower=lower,
        upper=upper,
        alpha_used=decision.alpha,
        p_reproduced=decision.p_reproduced,
        p_different=decision.p_different,
        sentence=words.judgements.distribution(
            word=decision.word,
            shown=wording.limits(distance, lower, upper, log=False),
            allowed=claim.upper,
            threshold=shares.thresholds[int(place)],
            thresholds=decision.points,
            checkpoints=decision.checkpoints,
        ),
        notes=(*blank.notes, *_notes(there, here)),
    )
    if decision.word != "INCONCLUSIVE":
        return judged
    (a,), (b,) = (
        stats.runs_at(side, [place], shares.resolution) for side in (shares.original, shares.rerun)
    )
    region = stats.Region(lower=-claim.upper, upper=claim.upper)
    advice = advising.runs(judged, a, b, interval, region)
    return replace(
        judged, advice=replace(advice, sentence=about("at that threshold alone", advice.sentence))
    )


def _series(metric: MetricRuns) -> list[Sequence[float]]:
    """The samples of every independent run that has a value."""
    runs = population.independent(metric).runs
    return [population.series(run) for run in runs if run.value is not None]


def _fold(interval: stats.Interval) -> tuple[float, float, float]:
    """Return a difference and its limits as a distance, which has no sign."""
    lower, upper = sorted((abs(interval.lower), abs(interval.upper)))
    is_crossing = interval.lower <= 0 <= interval.upper
    return abs(interval.estimate), 0.0 if is_crossing else lower, min(1.0, upper)


def _notes(there: Sequence[Sequence[float]], here: Sequence[Sequence[float]]) -> Iterator[Note]:
    for name, runs in (("original", there), ("re-run", here)):
        if 2 * sum(stats.mser5(run) > _SETTLED * len(run) for run in runs) > len(runs):
            yield words.NOTES("late-settling", side=name)
