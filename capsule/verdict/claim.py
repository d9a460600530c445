"""The judgement of one claim: what can be compared at all, by which rule, and what failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from capsule import population, stats
from capsule.diff import Pair
from capsule.manifest import looks
from capsule.notes import Note
from capsule.record import FrozenClaim
from capsule.sentences import Sentence
from capsule.summary import MetricRuns
from capsule.verdict import (
    bounds,
    distributions,
    evaluations,
    failing,
    shapes,
    shifts,
    sides,
    words,
)
from capsule.verdict.model import FURTHER_LOOKS, Judged, Look

_REPORT_ALPHA = 0.05
# stands for a claimed metric that neither side has
_NOTHING = MetricRuns(
    metric="", unit="1", direction="none", kind="portable", resolution=0.0, runs=()
)


def judge(pair: Pair) -> Judged:
    """Judge one claim, or report the ratio of a metric without one.

    Never raises for what a record can hold: every obstacle is an outcome with a sentence.
    """
    claim = pair.claim
    pair = replace(pair, original=population.keep(pair.original), rerun=population.keep(pair.rerun))
    blank = _blank(pair)
    if pair.skipped is not None:
        # of another capsule's claims, it may be what decides here
        sentence = words.JUDGEMENTS("skipped", sides=pair.skipped, is_decisive=blank.decisive)
        return replace(blank, word="SKIPPED", look=None, sentence=sentence, notes=())
    if claim is not None and pair.not_run is not None:
        return failing.leave_unrun(blank, pair.not_run)
    if claim is not None and pair.is_moved:
        sentence = words.JUDGEMENTS("other-device")
        return replace(blank, word="REPORTED", look=None, sentence=sentence)
    if claim is not None and pair.altered is not None:
        sentence = words.JUDGEMENTS("altered", fields=pair.altered)
        return replace(blank, word="REPORTED", look=None, sentence=sentence)
    obstacle = next(_obstacles(pair), None)
    if claim is None or claim.type == "ratio":
        return replace(blank, sentence=obstacle) if obstacle else shifts.ratio(blank, pair)

    if pair.inability is not None and pair.refused is None:
        return failing.leave_open(blank, pair.inability)

    def judge_values(at: Judged) -> Judged:
        if (breach := bounds.find_breach(at, pair)) is not None:
            return breach
        return replace(at, sentence=obstacle) if obstacle else _RULES[claim.type](at, pair, claim)

    return failing.judge(blank, pair, judge_values)


def _blank(pair: Pair) -> Judged:
    claim = pair.claim
    meaning = pair.original or pair.rerun or _NOTHING
    all_count = claim is not None and claim.type == "exact"
    original = sides.counts(pair.original, all_count=all_count)
    rerun = sides.counts(pair.rerun, all_count=all_count)
    look = _look(claim, pair) if claim is not None else None
    alpha = claim.alpha if claim is not None else _REPORT_ALPHA
    return Judged(
        metric=pair.metric,
        claim=claim,
        word="REPORTED" if claim is None or claim.type == "ratio" else "INCONCLUSIVE",
        unit=meaning.unit,
        direction=meaning.direction,
        kind=meaning.kind,
        scale=claim.scale if claim is not None else "log",
        original=original,
        rerun=rerun,
        seeds=pair.seeds,
        names=pair.names,
        method="none",
        region=(claim.lower, claim.upper) if claim is not None else (None, None),
        alpha=alpha,
        level=look.alpha if look else alpha,
        look=look,
        notes=(
            *sides.notes(original, rerun, pair.names),
            *sides.range_notes(pair),
            *bounds.notes(pair),
            *evaluations.notes(pair),
            *([_name_look(look, alpha)] if look else []),
            *([] if pair.rerun is None else sides.earlier_notes(pair.rerun, pair.seeds)),
        ),
    )


def _look(claim: FrozenClaim, pair: Pair) -> Look | None:
    """The look that so many re-run seeds are; a function of the two capsules, not of who looks."""
    if claim.paired or not claim.looks:
        return None
    there, rerun = pair.original, pair.rerun
    runs = len(rerun.runs) if rerun is not None else 0
    # where earlier runs are left out, each of these looks is at runs of its own: none was planned
    alone = rerun is not None and rerun.earlier > 0
    number = claim.looks.index(runs) + 1 if runs in claim.looks and not alone else None
    level = looks.level(claim.pattern, claim.looks, 0 if there is None else len(there.runs))
    return Look(
        planned=claim.looks,
        runs=runs,
        number=number,
        alpha=level if number else stats.nominal_alpha(claim.alpha, FURTHER_LOOKS),
        planned_alpha=level,
    )


def _name_look(look: Look, alpha: float) -> Note:
    """Return the note on the planned look of a judgement and its level."""
    if look.number is not None:
        return words.notes.planned_look(
            place=look.number, planned=look.planned, level=look.alpha, alpha=alpha
        )
    return words.notes.unplanned_look(
        runs=look.runs,
        planned=look.planned,
        is_alone=look.runs in look.planned,
        level=look.alpha,
        alpha=alpha,
    )


def _obstacles(pair: Pair) -> Iterator[Sentence]:
    """Why no values can be compared, most basic reason first."""
    there, here, claim, names = pair.original, pair.rerun, pair.claim, pair.names
    if pair.refused is not None:
        yield pair.refused
    if pair.scale is not None:
        yield pair.scale
    if there is None or here is None:
        yield words.JUDGEMENTS("no-metric", side=names.there if there is None else names.here)
        return
    if there.unit != here.unit:
        units = ((there.unit, names.there), (here.unit, names.here))
        yield words.judgements.units_differ(units=units)
    if pair.seeds == "same" and not here.runs:
        yield words.JUDGEMENTS(
            "no-common-seeds", is_exact=claim is not None and claim.type == "exact"
        )
    standalone = claim is not None and (
        claim.type in ("threshold", "bound") or claim.pattern.published is not None
    )
    a, b = population.numbers(there), population.numbers(here)
    if not b or not (a or standalone):
        metric, name = (there, names.there) if b else (here, names.here)
        yield (
            words.JUDGEMENTS("values-too-large", side=name, most=population.LARGEST)
            if metric.values
            else words.JUDGEMENTS("no-values", side=name)
        )
    elif claim is not None and claim.type not in ("exact", "ratio", "threshold", "bound"):
        if claim.lower is None and claim.upper is None:
            yield words.JUDGEMENTS("no-margin")
        elif claim.scale == "log" and min((*(() if standalone else a), *b)) <= 0:
            yield words.judgements.not_positive(is_mean=False, of="run")


def _exact(blank: Judged, pair: Pair, _claim: FrozenClaim) -> Judged:
    assert pair.original is not None
    assert pair.rerun is not None
    there, here = population.values(pair.original), population.values(pair.rerun)
    values = [(seed, there[seed], here[seed]) for seed in sorted(there.keys() & here.keys())]
    if not values:
        return replace(blank, sentence=words.JUDGEMENTS("no-common-values"))
    unequal = [one for one in values if repr(one[1]) != repr(one[2])]
    same, (seed, a, b) = not unequal, (unequal or values)[0]
    complete = len(values) == len(pair.original.runs) == len(pair.rerun.runs)
    return replace(
        blank,
        word="DIFFERENT" if not same else "REPRODUCED" if complete else "INCONCLUSIVE",
        method="exact",
        alpha_used=blank.level,
        p_reproduced=float(not same),
        p_different=float(same),
        sentence=words.judgements.exact(
            values=len(values),
            unequal=len(unequal),
            seed=seed,
            there=a,
            here=b,
            lost=len(pair.original.runs) - len(values) if same and not complete else None,
        ),
    )


_RULES: Mapping[str, Callable[[Judged, Pair, FrozenClaim], Judged]] = {
    "exact": _exact,
    "equivalence": shifts.equivalence,
    "noninferiority": shifts.equivalence,
    "prediction": shifts.prediction,
    "threshold": shifts.threshold,
    "bound": bounds.judge,
    "distribution": distributions.judge,
    "curve": shapes.judge,
}
