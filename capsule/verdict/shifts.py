"""Claims on a shift between two sides, or on one side's location: one interval and one region."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from capsule import population, stats
from capsule.diff import Pair
from capsule.freezing import UNKNOWN_RUNS
from capsule.notes import Note
from capsule.record import FrozenClaim
from capsule.summary import MetricRuns
from capsule.verdict import advising, within, wording, words
from capsule.verdict.model import Judged


def equivalence(blank: Judged, pair: Pair, claim: FrozenClaim) -> Judged:
    """A shift held against the margin; of pairs where the claim declared them beforehand.

    Noninferiority is the same with one end of the region open.
    """
    a, b = both(pair, claim)
    if claim.paired:
        return _compare_pairs(blank, pair, claim, a, b)
    interval = stats.shift(a, b, alpha=blank.level)
    if interval is None:
        return within.judge(blank, pair, log=claim.scale == "log")
    judged = _word(_decide(blank, interval), pair, claim)
    judged = replace(
        judged,
        superiority=stats.superiority(a, b),
        p_beyond=stats.p_beyond(a, b, region(judged.region)),
    )
    return _advise(judged, interval, a, b)


def prediction(blank: Judged, pair: Pair, claim: FrozenClaim) -> Judged:
    """A shift from the original's runs, which may be few or one, or from what was published."""
    a, b = _original(pair, claim), _one_side(pair.rerun, pair, claim)
    if isinstance(a, stats.Runs):
        interval = stats.shift(a, b, alpha=blank.level)
    else:
        interval = stats.summary_shift(a, b, alpha=blank.level)
    if interval is None:
        return within.judge(blank, pair, log=claim.scale == "log")
    judged = _word(_decide(blank, interval), pair, claim)
    judged = replace(judged, notes=(*judged.notes, *_prediction_notes(judged, interval, claim)))
    if isinstance(a, stats.Runs):
        judged = replace(judged, superiority=stats.superiority(a, b))
    return _advise(judged, interval, a, b)


def _prediction_notes(
    judged: Judged, interval: stats.Interval, claim: FrozenClaim
) -> Iterator[Note]:
    if claim.pattern.published is not None and claim.pattern.published.n is None:
        yield words.NOTES("runs-assumed", runs=UNKNOWN_RUNS)
    predicted = interval.method in ("prediction", "summary")
    if predicted and judged.word == "INCONCLUSIVE" and interval.lower <= 0 <= interval.upper:
        yield words.NOTES("consistent")


def threshold(blank: Judged, pair: Pair, claim: FrozenClaim) -> Judged:
    """The re-execution's own location, held against a constant."""
    b = _one_side(pair.rerun, pair, claim)
    log = claim.scale == "log"
    if log and not b.positive:
        return replace(blank, sentence=words.judgements.not_positive(is_mean=True, of="run"))
    b = b.log() if log else b
    interval = stats.location(b, alpha=blank.level)
    if interval is None:
        return replace(blank, sentence=words.JUDGEMENTS("one-run"))
    judged = replace(_decide(blank, interval), p_zero=None)
    limits = wording.limits(judged.estimate, judged.lower, judged.upper, log=log)
    assert judged.word != "REPORTED"
    assert judged.word != "SKIPPED"
    sentence = words.judgements.threshold(
        word=judged.word,
        is_geometric=log,
        of=claim.pattern.value,
        shown=limits,
        allowed=wording.constants(claim),
    )
    return _advise(replace(judged, sentence=sentence), interval, None, b)


def ratio(blank: Judged, pair: Pair) -> Judged:
    """Report the ratio of both sides for an unclaimed metric, without judging it."""
    a, b = both(pair, pair.claim)
    log = a.positive and b.positive
    if log:
        a, b = a.log(), b.log()
    scaled = replace(blank, scale="log" if log else "linear")
    # nobody waits for the relabelings of a hundred metrics that decide nothing
    interval = stats.shift(a, b, alpha=blank.level, relabel=False)
    if interval is None:
        return within.judge(scaled, pair, log=log)
    measured = replace(
        measure(scaled, interval), p_zero=p_zero(interval), superiority=stats.superiority(a, b)
    )
    limits = wording.limits(
        measured.estimate, measured.lower, measured.upper, log=log, is_signed=not log
    )
    return replace(measured, sentence=words.JUDGEMENTS("reported", is_ratio=log, shown=limits))


def both(pair: Pair, claim: FrozenClaim | None) -> tuple[stats.Runs, stats.Runs]:
    """The independent runs of both sides on the scale of the claim."""
    return _one_side(pair.original, pair, claim), _one_side(pair.rerun, pair, claim)


def _one_side(side: MetricRuns | None, pair: Pair, claim: FrozenClaim | None) -> stats.Runs:
    assert side is not None
    runs = population.runs(population.independent(side), _resolution(pair, claim))
    log = claim is not None and claim.type not in ("ratio", "threshold") and claim.scale == "log"
    return runs.log() if log else runs


def measure(blank: Judged, interval: stats.Interval) -> Judged:
    """The judgement with an interval in it, and no word yet."""
    return replace(
        blank,
        method=interval.method,
        estimate=interval.estimate,
        lower=interval.lower if math.isfinite(interval.lower) else None,
        upper=interval.upper if math.isfinite(interval.upper) else None,
        alpha_used=interval.alpha,
    )


def region(ends: tuple[float | None, float | None]) -> stats.Region:
    """A region with its open ends at infinity."""
    lower, upper = ends
    return stats.Region(
        lower=-math.inf if lower is None else lower, upper=math.inf if upper is None else upper
    )


def p_zero(interval: stats.Interval) -> float:
    """The two-sided p value of no shift: information, as it never shows that two sides agree."""
    p = stats.decide(interval, stats.Region(lower=0.0, upper=0.0)).p_different
    # of a single run it is doubled already
    return p if interval.method in ("prediction", "exact") else min(1.0, 2 * p)


def _resolution(pair: Pair, claim: FrozenClaim | None) -> float:
    if claim is not None and claim.resolution is not None:
        return claim.resolution
    return max(side.resolution for side in (pair.original, pair.rerun) if side is not None)


def _original(pair: Pair, claim: FrozenClaim) -> stats.Runs | stats.Summary:
    published = claim.pattern.published
    if published is None:
        return _one_side(pair.original, pair, claim)
    n, resolution = published.n or UNKNOWN_RUNS, _resolution(pair, claim)
    paper = stats.Summary(mean=published.mean, sd=published.sd, n=n, resolution=resolution)
    return paper.log() if claim.scale == "log" else paper


def _compare_pairs(
    blank: Judged, pair: Pair, claim: FrozenClaim, a: stats.Runs, b: stats.Runs
) -> Judged:
    there, here = dict(a.by_seed), dict(b.by_seed)
    common = sorted(there.keys() & here.keys())
    # a difference of two rounded values is rounded twice
    differences = stats.Runs.of(
        {seed: here[seed] - there[seed] for seed in common},
        resolution=math.sqrt(2) * max(a.resolution, b.resolution),
    )
    assert pair.original is not None
    are_rounds = pair.seeds == "pair"
    order = [run.seed for run in pair.original.runs]
    blocks = stats.blocks(differences, order) if are_rounds else None
    judgeable = blocks or differences
    interval = stats.paired_shift(judgeable, alpha=blank.level)
    if interval is None:
        return replace(blank, sentence=words.JUDGEMENTS("too-few-pairs"))
    notes = [words.NOTES("paired-seeds", pairs=len(common), are_rounds=are_rounds)]
    if blocks is not None:
        notes.append(words.NOTES("rounds-in-blocks", blocks=blocks.n))
    judged = _word(_decide(blank, interval), pair, claim)
    allowed = region(judged.region)
    judged = replace(
        judged,
        superiority=stats.superiority(a, b),
        p_beyond=stats.p_beyond_of_pairs(judgeable, allowed),
        notes=(*judged.notes, *notes),
    )
    if judged.word != "INCONCLUSIVE":
        return judged
    if not are_rounds:
        return replace(judged, advice=advising.pairs(differences, interval, allowed))
    advice = advising.rounds(judgeable, interval, allowed, are_blocks=blocks is not None)
    return replace(judged, advice=advice)


def _decide(blank: Judged, interval: stats.Interval) -> Judged:
    decision = stats.decide(interval, region(blank.region))
    return replace(
        measure(blank, interval),
        word=decision.word,
        p_reproduced=decision.p_reproduced,
        p_different=decision.p_different,
        p_zero=p_zero(interval),
    )


def _word(judged: Judged, pair: Pair, claim: FrozenClaim) -> Judged:
    assert pair.original is not None
    assert judged.word != "REPORTED"
    assert judged.word != "SKIPPED"
    log = claim.scale == "log"
    limits = wording.limits(judged.estimate, judged.lower, judged.upper, log=log, is_signed=not log)
    allowed = wording.margin(claim, pair.original)
    if claim.type == "noninferiority":
        sentence = words.judgements.noninferiority(
            word=judged.word,
            is_ratio=log,
            of=claim.pattern.value,
            shown=limits,
            allowed=allowed,
            is_of_one_run=judged.method == "prediction",
        )
    else:
        inside = judged.lower is None or judged.upper is None or judged.lower <= 0 <= judged.upper
        sentence = words.judgements.equivalence(
            word=judged.word,
            is_ratio=log,
            of=claim.pattern.value,
            is_published=claim.pattern.published is not None,
            shown=limits,
            allowed=allowed,
            is_detectable=not inside,
            is_of_one_run=judged.method == "prediction",
        )
    return replace(judged, sentence=sentence)


def _advise(
    judged: Judged, interval: stats.Interval, a: stats.Runs | stats.Summary | None, b: stats.Runs
) -> Judged:
    if judged.word != "INCONCLUSIVE":
        return judged
    return replace(judged, advice=advising.runs(judged, a, b, interval, region(judged.region)))
