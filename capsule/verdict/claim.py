"""The judgement of one claim: its runs and failures, its interval, its word and its sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from capsule.diff import Pair
from capsule.record import FrozenClaim
from capsule.summary import MetricRuns
from capsule.verdict import wording
from capsule.verdict.model import Counts, Judged

if TYPE_CHECKING:
    from capsule.stats import Interval, Region, Runs

# beyond it a difference of two values may leave the range of doubles
_LARGEST = 1e300
_REPORT_ALPHA = 0.05
# stands for a claimed metric that neither side has
_NOTHING = MetricRuns(
    metric="", unit="1", direction="none", kind="portable", resolution=0.0, runs=()
)


def judge(pair: Pair) -> Judged:
    """Judge one claim, or report the ratio of a metric without one.

    Never raises for what a record can hold: every obstacle is an outcome with a sentence.
    """
    blank = _blank(pair)
    obstacle = next(_obstacles(pair), None)
    if pair.claim is None or pair.claim.type == "ratio":
        return replace(blank, sentence=obstacle) if obstacle else _ratio(blank, pair)
    if obstacle:
        found = replace(blank, sentence=obstacle)
    elif pair.claim.type == "exact":
        found = _exact(blank, pair)
    else:
        found = _interval(blank, pair, pair.claim)
    return _with_failures(found)


def _blank(pair: Pair) -> Judged:
    claim = pair.claim
    judgeless = claim is None or claim.type == "ratio"
    meaning = pair.original or pair.rerun or _NOTHING
    original, rerun = _counts(pair.original), _counts(pair.rerun)
    return Judged(
        metric=pair.metric,
        claim=claim,
        word="REPORTED" if judgeless else "INCONCLUSIVE",
        unit=meaning.unit,
        direction=meaning.direction,
        kind=meaning.kind,
        scale=claim.scale if claim is not None else "log",
        original=original,
        rerun=rerun,
        seeds=pair.seeds,
        method="none",
        alpha=claim.alpha if claim is not None else _REPORT_ALPHA,
        notes=tuple(_missing_notes(original, rerun)),
    )


def _counts(side: MetricRuns | None) -> Counts:
    if side is None:
        return Counts(seeds=(), values=0, failed=0, missing=0, mean=None, sd=None)
    runs = _runs(side)
    missing = sum(run.status == "missing" for run in side.runs)
    return Counts(
        seeds=tuple(run.seed for run in side.runs),
        values=runs.n,
        failed=len(side.runs) - runs.n - missing,
        missing=missing,
        mean=runs.mean if runs.n else None,
        sd=runs.sd if runs.n >= 2 else None,
    )


def _runs(side: MetricRuns, resolution: float | None = None) -> Runs:
    from capsule.stats import Runs

    by_seed = {
        run.seed: run.value
        for run in side.runs
        if run.value is not None and abs(run.value) <= _LARGEST
    }
    return Runs.of(by_seed, resolution=side.resolution if resolution is None else resolution)


def _missing_notes(original: Counts, rerun: Counts) -> Iterator[str]:
    for name, side in (("original", original), ("re-execution", rerun)):
        if side.missing:
            yield f"runs of the {name} that were interrupted and have no outcome: {side.missing}"


def _obstacles(pair: Pair) -> Iterator[str]:
    """Why no values can be compared, most basic reason first."""
    there, here, claim = pair.original, pair.rerun, pair.claim
    if there is None or here is None:
        yield f"the {'original' if there is None else 're-execution'} has no such metric"
        return
    if there.unit != here.unit:
        yield f"the units differ: {there.unit} in the original, {here.unit} in the re-execution"
    if pair.seeds == "same" and not here.runs:
        yield "an exact claim compares equal seeds, and the two sides share none"
    constant = claim is not None and claim.type == "threshold"
    a, b = _runs(there), _runs(here)
    if b.n == 0 or (a.n == 0 and not constant):
        yield f"no run of the {'re-execution' if b.n == 0 else 'original'} has a value"
    elif claim is not None and claim.type in ("equivalence", "noninferiority"):
        if claim.lower is None and claim.upper is None:
            yield "there is no margin: the author gave none, and one run tells no spread"
        elif claim.scale == "log" and not (a.positive and b.positive):
            yield "a ratio needs positive values, and not every run's value is"


def _exact(blank: Judged, pair: Pair) -> Judged:
    assert pair.original is not None
    assert pair.rerun is not None
    there, here = dict(_runs(pair.original).by_seed), dict(_runs(pair.rerun).by_seed)
    values = [(seed, there[seed], here[seed]) for seed in sorted(there.keys() & here.keys())]
    if not values:
        return replace(blank, sentence="no seed has a value on both sides")
    same = all(repr(a) == repr(b) for _, a, b in values)
    complete = len(values) == len(pair.original.runs) == len(pair.rerun.runs)
    sentence = wording.exact(values)
    if same and not complete:
        sentence += f", but {len(pair.original.runs) - len(values)} have no value on some side"
    return replace(
        blank,
        word="DIFFERENT" if not same else "REPRODUCED" if complete else "INCONCLUSIVE",
        method="exact",
        alpha_used=blank.alpha,
        p_reproduced=float(not same),
        p_different=float(same),
        sentence=sentence,
    )


def _ratio(blank: Judged, pair: Pair) -> Judged:
    from capsule.stats import shift

    assert pair.original is not None
    assert pair.rerun is not None
    a, b = _runs(pair.original), _runs(pair.rerun)
    log = a.positive and b.positive
    found = shift(a.log(), b.log(), alpha=blank.alpha) if log else shift(a, b, alpha=blank.alpha)
    if found is None:
        return replace(blank, sentence="one run on each side tells no spread: no interval")
    measured = _measured(blank, found, log=log)
    name = "ratio" if log else "difference"
    told = wording.limits(measured.estimate, measured.lower, measured.upper, log=log)
    return replace(measured, sentence=f"{name} {told}")


def _interval(blank: Judged, pair: Pair, claim: FrozenClaim) -> Judged:
    from capsule.stats import Region, decide, location, shift

    assert pair.original is not None
    assert pair.rerun is not None
    resolution = max(pair.original.resolution, pair.rerun.resolution)
    a, b = _runs(pair.original, resolution), _runs(pair.rerun, resolution)
    lower, upper, log = claim.lower, claim.upper, claim.scale == "log"
    if claim.type == "threshold" and log and not b.positive:
        # the original's values were all positive, a value of 0 here has no logarithm
        lower, upper, log = claim.pattern.at_least, claim.pattern.at_most, False
    if log:
        a, b = a.log() if claim.type != "threshold" else a, b.log()
    region = Region(
        lower=-math.inf if lower is None else lower, upper=math.inf if upper is None else upper
    )
    constant = claim.type == "threshold"
    found = location(b, alpha=claim.alpha) if constant else shift(a, b, alpha=claim.alpha)
    if found is None:
        alone = "one run" if constant else "one run on each side"
        return replace(blank, sentence=f"{alone} tells no spread, and without it nothing follows")
    decision = decide(found, region)
    measured = replace(
        _measured(blank, found, log=log),
        word=decision.word,
        p_reproduced=decision.p_reproduced,
        p_different=decision.p_different,
    )
    return replace(
        measured,
        sentence=_sentence(measured, claim, pair.original),
        advice=_advice(None if constant else a, b, found, region)
        if decision.word == "INCONCLUSIVE"
        else None,
    )


def _measured(blank: Judged, found: Interval, *, log: bool) -> Judged:
    return replace(
        blank,
        scale="log" if log else "linear",
        method=found.method,
        estimate=found.estimate,
        lower=found.lower if math.isfinite(found.lower) else None,
        upper=found.upper if math.isfinite(found.upper) else None,
        alpha_used=found.alpha,
    )


def _sentence(found: Judged, claim: FrozenClaim, original: MetricRuns) -> str:
    log = found.scale == "log"
    told = wording.limits(found.estimate, found.lower, found.upper, log=log)
    assert found.word != "REPORTED"
    if claim.type == "threshold":
        return wording.threshold(found.word, told, claim=claim, log=log)
    allowed = wording.margin(claim, original)
    if claim.type == "noninferiority":
        return wording.noninferiority(found.word, told, claim=claim, allowed=allowed)
    detectable = (
        found.lower is not None and found.upper is not None and not found.lower <= 0 <= found.upper
    )
    return wording.equivalence(
        found.word, told, claim=claim, allowed=allowed, detectable=detectable
    )


def _advice(a: Runs | None, b: Runs, found: Interval, region: Region) -> str | None:
    from capsule.stats import runs_needed

    if a is not None and a.n < 2:
        return "no number of re-runs decides this: the original itself has one run"
    return wording.advice(runs_needed(a, b, found, region), b.n)


def _with_failures(found: Judged) -> Judged:
    """Failures are an outcome too: unequal rates veto REPRODUCED, clearly unequal ones differ."""
    from capsule.stats import fisher_more

    failed_a, failed_b = found.original.failed, found.rerun.failed
    n_a, n_b = found.original.values + failed_a, found.rerun.values + failed_b
    if failed_a * n_b == failed_b * n_a:
        return found
    told = wording.failures(failed_a, n_a, failed_b, n_b)
    p = min(fisher_more(failed_a, n_a, failed_b, n_b), fisher_more(failed_b, n_b, failed_a, n_a))
    level = found.alpha / 2
    if p < level and p / level < found.p_against_alpha:
        return replace(
            found,
            word="DIFFERENT",
            method="failures",
            alpha_used=level,
            p_reproduced=None,
            p_different=p,
            sentence=f"{told}; {found.sentence}",
            advice=None,
        )
    if found.word == "REPRODUCED":
        vetoed = f"{found.sentence}, but {told}: unequal failure rates are not reproduced"
        return replace(found, word="INCONCLUSIVE", sentence=vetoed)
    return replace(found, notes=(*found.notes, told))
