"""What a claim's number of runs will let anybody conclude, known before a day of measuring."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from capsule import stats
from capsule.freezing import UNKNOWN_RUNS, spreads
from capsule.lint import spreads as table
from capsule.lint import wording
from capsule.manifest import looks
from capsule.manifest.model import Claim, Manifest
from capsule.manifest.paths import match

POWERS = (0.8, 0.9)


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """The reach of one claim, with one number for each power of `POWERS`.

    Attributes:
        metric: The claim's pattern.
        type: The claim's.
        label: The claim's.
        mean_of_last: The claim's.
        seeds: The original's runs.
        rerun_seeds: The re-execution's: as many, which is the first look, or those of the last
            look where the author planned some.
        alpha: One-sided level that this look, or an interval without a guard against skew, uses.
        paired: Whether it is of the pairs of a paired claim; of one that stands alone there is
            another of the fresh seeds beside them.
        narrowest: Narrowest margin that so many runs confirm, in true between-run standard
            deviations; of pairs in standard deviations of their differences. None where none is
            confirmed, the margin is in standard deviations itself, or the claim is no shift.
        margin: The margin asked for in standard deviations that the original will show, None where
            it is given otherwise.
        enough: How often so many runs confirm `margin`, None without one or a second run.
        runs: For a distribution independent samples on each side; None where nobody knows.
        sentence: All of it in words.
    """

    metric: str
    type: str
    label: str | None = None
    mean_of_last: int | None = None
    paired: bool = False
    seeds: int
    rerun_seeds: int
    alpha: float
    narrowest: tuple[float, float] | None
    margin: float | None
    enough: table.Word | None = None
    runs: tuple[int | None, int | None]
    sentence: str


def outlook(manifest: Manifest) -> tuple[Outlook, ...]:
    """The reach of every claim that a number of runs decides, in the order of claims.

    Claims that are exact, reported only, or held against a constant have none: nobody knows
    beforehand how far from the constant the runs will be.
    """
    return tuple(_outlooks(manifest))


def _outlooks(manifest: Manifest) -> Iterator[Outlook]:
    for claim in manifest.claims:
        if claim.type == "distribution":
            yield _of_distribution(claim, manifest)
        elif claim.type == "bound":
            yield _of_bound(claim, len(manifest.seeds))
        elif claim.type not in ("exact", "ratio", "threshold"):
            if claim.paired:
                yield _of_pairs(claim, len(manifest.seeds))
            if not claim.paired or stands_alone(claim, manifest):
                yield _of_shift(claim, manifest)


def stands_alone(paired: Claim, manifest: Manifest) -> bool:
    """Whether no other claim tells under fresh seeds what a paired one cannot."""
    beside = (one for one in manifest.claims if match(one.metric, paired.metric))
    return not any(other.answers_for(paired) for other in beside)


def _of_pairs(claim: Claim, seeds: int) -> Outlook:
    margins = [
        stats.narrowest_paired_margin(seeds, alpha=claim.alpha, power=power) for power in POWERS
    ]
    reach = None if math.isinf(margins[1]) else (margins[0], margins[1])
    return Outlook(
        metric=claim.metric,
        type=claim.type,
        label=claim.label,
        mean_of_last=claim.mean_of_last,
        paired=True,
        seeds=seeds,
        rerun_seeds=seeds,
        alpha=stats.one_set(seeds, claim.alpha),
        narrowest=reach,
        margin=None,
        runs=(None, None),
        sentence=f"{claim.name}, paired: {wording.pairs(claim, seeds, spreads(claim), reach)}",
    )


@dataclass(frozen=True, kw_only=True)
class _Look:
    """The look that is foretold: the last that the author planned, else the first.

    Attributes:
        runs: Re-run seeds.
        alpha: Its one-sided level.
        words: When it is, empty for the last one.
    """

    runs: int
    alpha: float
    words: str


def _look(claim: Claim, manifest: Manifest) -> _Look:
    plan = looks.plan(manifest.claims, len(manifest.seeds))
    planned = looks.is_planned(manifest.claims)
    return _Look(
        runs=plan[-1] if planned else plan[0],
        alpha=stats.nominal_alpha(claim.alpha, len(plan)),
        words="" if planned else wording.FIRST_LOOK,
    )


def _of_shift(claim: Claim, manifest: Manifest) -> Outlook:
    look, seeds = _look(claim, manifest), len(manifest.seeds)
    alpha, here = look.alpha, look.runs
    if claim.published is not None:
        alpha /= 2  # a mean with its spread, without runs, has nothing that guards it against skew
    there = seeds if claim.published is None else claim.published.n or UNKNOWN_RUNS
    margin, reach, enough = spreads(claim), None, None
    sides = wording.sides(claim, there, here)
    if margin is None:
        low, high = (
            stats.narrowest_margin(there, here, alpha=alpha, power=power) for power in POWERS
        )
        reach = None if math.isinf(high) else (low, high)
        sentence = wording.scatter(claim, sides, reach, look.words)
    else:
        # it is measured by the original's own runs
        enough = table.word(margin, there, here, alpha=alpha) if there > 1 else None
        needed = table.needed(margin, alpha=alpha)
        if there == here and claim.published is None:
            sides = f"{there} runs a side"
        sentence = wording.runs(claim, sides, margin, enough, needed, look.words)
    return Outlook(
        metric=claim.metric,
        type=claim.type,
        label=claim.label,
        seeds=there,
        rerun_seeds=here,
        alpha=alpha,
        narrowest=reach,
        margin=margin,
        enough=enough,
        runs=(None, None),
        mean_of_last=claim.mean_of_last,
        sentence=f"{claim.name}: {sentence}",
    )


def _of_distribution(claim: Claim, manifest: Manifest) -> Outlook:
    assert claim.margin is not None
    assert claim.margin.distance is not None
    distance = claim.margin.distance
    look = _look(claim, manifest)
    samples = [
        stats.samples_for_distance(distance, alpha=look.alpha, power=power) for power in POWERS
    ]
    numbers = [count or f"more than {stats.MOST_SAMPLES}" for count in samples]
    return Outlook(
        metric=claim.metric,
        type=claim.type,
        label=claim.label,
        seeds=len(manifest.seeds),
        rerun_seeds=look.runs,
        alpha=look.alpha,
        narrowest=None,
        margin=None,
        runs=(samples[0], samples[1]),
        sentence=f"{claim.metric}: {numbers[0]} independent samples on each side confirm a distance"
        f" below {distance:g}{look.words} with probability 0.8, {numbers[1]} with 0.9",
    )


def _of_bound(claim: Claim, seeds: int) -> Outlook:
    return Outlook(
        metric=claim.metric,
        type=claim.type,
        label=claim.label,
        seeds=seeds,
        rerun_seeds=seeds,
        alpha=claim.alpha,
        narrowest=None,
        margin=None,
        runs=(None, None),
        sentence=f"{claim.metric}: {wording.bad_runs(seeds)}",
    )
