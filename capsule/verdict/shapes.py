"""Claims on a whole curve, such as a loss over epochs: within the margin at every step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from capsule import population, stats
from capsule.diff import Pair
from capsule.record import FrozenClaim
from capsule.sentences import Sentence, about
from capsule.summary import MetricRuns
from capsule.verdict import advising, wording, words
from capsule.verdict.model import Judged


def judge(blank: Judged, pair: Pair, claim: FrozenClaim) -> Judged:
    """Every step's shift held against the margin; the worst of them is told."""
    assert pair.original is not None
    assert pair.rerun is not None
    assert claim.upper is not None
    log = claim.scale == "log"
    sources = [population.independent(side) for side in (pair.original, pair.rerun)]
    bundles = [population.curves(source) for source in sources]
    for name, source, bundle in zip(("original", "re-run"), sources, bundles, strict=True):
        if len(bundle) < len(source.values):
            return replace(blank, sentence=words.JUDGEMENTS("no-curve", side=name))
    smallest = min(min(curve.values) for bundle in bundles for curve in bundle.values())
    resolution = claim.resolution
    if resolution is None:
        resolution = max(pair.original.resolution, pair.rerun.resolution)
    if log and smallest <= 0:
        return replace(blank, sentence=words.judgements.not_positive(is_mean=False, of="step"))
    if log:
        bundles, resolution = [_logarithms(one) for one in bundles], resolution / smallest
    there, here = bundles
    decision = stats.curve_shift(
        there, here, margin=claim.upper, alpha=blank.level, resolution=resolution
    )
    if decision.interval is None:
        return replace(blank, sentence=words.JUDGEMENTS("no-bundle", has_steps=decision.points > 0))
    interval = decision.interval
    judged = replace(
        blank,
        word=decision.word,
        method="curve",
        estimate=interval.estimate,
        lower=interval.lower,
        upper=interval.upper,
        step=decision.worst_step,
        alpha_used=decision.alpha,
        p_reproduced=decision.p_reproduced,
        p_different=decision.p_different,
        sentence=_sentence(decision, claim, pair.original),
    )
    if decision.word != "INCONCLUSIVE" or decision.worst_step is None:
        return judged
    (a,), (b,) = (stats.runs_at(side, [decision.worst_step]) for side in bundles)
    region = stats.Region(lower=-claim.upper, upper=claim.upper)
    advice = advising.runs(judged, a, b, interval, region)
    return replace(
        judged, advice=replace(advice, sentence=about("at that step alone", advice.sentence))
    )


def _sentence(decision: stats.CurveDecision, claim: FrozenClaim, original: MetricRuns) -> Sentence:
    interval, log = decision.interval, claim.scale == "log"
    assert interval is not None
    limits = wording.limits(
        interval.estimate, interval.lower, interval.upper, log=log, is_signed=not log
    )
    return words.judgements.curve(
        word=decision.word,
        is_ratio=log,
        shown=limits,
        allowed=wording.margin(claim, original),
        worst_step=decision.worst_step,
        first_step=decision.first_step,
        last_step=decision.last_step,
        steps=decision.points,
        checkpoints=decision.checkpoints,
        # each of its steps is judged so
        is_of_one_run=interval.method == "prediction",
    )


def _logarithms(bundle: Mapping[int, stats.Curve]) -> Mapping[int, stats.Curve]:
    return {
        seed: stats.Curve(steps=curve.steps, values=tuple(map(math.log, curve.values)))
        for seed, curve in bundle.items()
    }
