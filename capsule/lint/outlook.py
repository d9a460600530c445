"""Power of each claim's planned number of runs, before the run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

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
    """Power of the runs of one claim, with one number for each entry of `POWERS`.

    Attributes:
        metric: The claim's pattern.
        type: The claim's.
        label: The claim's.
        mean_of_last: The claim's.
        seeds: The original's runs.
        rerun_seeds: The re-run's: as many (the first look), or those of the last look that the
            author planned.
        alpha: One-sided level of this look, or of an interval without a guard against skew; of a
            published mean that of as many runs on both sides.
        paired: Whether it is about the pairs of a paired claim. A paired claim that stands alone
            has a second outlook, about the fresh seeds beside the pairs.
        narrowest: Smallest margin that the runs confirm, in true standard deviations between runs,
            for pairs in standard deviations of their differences. None where no margin can be
            confirmed, the margin is in standard deviations itself, or the claim is not about a
            shift.
        margin: The claim's margin in standard deviations between the original's runs, None where
            the author gave a number.
        enough: How often the runs confirm `margin`; None without a margin, and for a single run.
        runs: Independent samples per run that keep the standard deviation of the runs' shares low
            enough, for a distribution; else None.
        sentence: The same in words.
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
    """Return the outlooks of all claims, in the order of claims."""
    return tuple(chain.from_iterable(outlook_of(claim, manifest) for claim in manifest.claims))


def outlook_of(claim: Claim, manifest: Manifest) -> Iterator[Outlook]:
    """Yield the outlook of a claim that a number of runs decides.

    Claims of type exact, ratio and threshold have none: how far the runs will lie from a constant
    is unknown before they ran. A paired claim that stands alone has two.
    """
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
    """Return whether no other claim judges a paired claim's metric under fresh seeds."""
    beside = (one for one in manifest.claims if match(one.metric, paired.metric))
    return not any(other.answers_for(paired) for other in beside)


def _of_pairs(claim: Claim, seeds: int) -> Outlook:
    margins = [
        stats.narrowest_paired_margin(seeds, alpha=claim.alpha, power=power) for power in POWERS
    ]
    reach = None if math.isinf(margins[1]) else (margins[0], margins[1])
    sentence = wording.pairs(claim, seeds, reach)
    return Outlook(
        metric=claim.metric,
        type=claim.type,
        label=claim.label,
        mean_of_last=claim.mean_of_last,
        paired=True,
        seeds=seeds,
        rerun_seeds=seeds,
        alpha=stats.paired_level(seeds, claim.alpha),
        narrowest=reach,
        margin=None,
        runs=(None, None),
        sentence=f"{wording.subject(claim)}, paired: {sentence}",
    )


@dataclass(frozen=True, kw_only=True)
class _Look:
    """The look that an outlook is about: the last that the author planned, else the first.

    Attributes:
        runs: Re-run seeds.
        alpha: Its one-sided level.
        words: Its name as the end of a sentence, empty for the last look.
    """

    runs: int
    alpha: float
    words: str


def _look(claim: Claim, manifest: Manifest) -> _Look:
    plan = looks.plan(manifest.claims, len(manifest.seeds))
    planned = looks.is_planned(manifest.claims)
    return _Look(
        runs=plan[-1] if planned else plan[0],
        alpha=looks.level(claim, plan, len(manifest.seeds)),
        words=wording.FIRST_LOOK if looks.has_more(manifest.claims, len(manifest.seeds)) else "",
    )


def _of_shift(claim: Claim, manifest: Manifest) -> Outlook:
    look, seeds = _look(claim, manifest), len(manifest.seeds)
    alpha, here = look.alpha, look.runs
    there = seeds if claim.published is None else claim.published.n or UNKNOWN_RUNS
    level = alpha
    if claim.published is not None:
        alpha /= 2  # published numbers without runs are not guarded against skew
        level = look.alpha * stats.summary_part(there, here) if min(there, here) > 1 else alpha
    margin, reach, enough = spreads(claim), None, None
    sides = wording.sides(claim, there, here)
    if margin is None:
        low, high = (
            stats.narrowest_margin(there, here, alpha=level, power=power) for power in POWERS
        )
        reach = None if math.isinf(high) else (low, high)
        sentence = wording.scatter(claim, sides, reach, look.words)
    else:
        # in standard deviations of the original's own runs
        enough = table.word(margin, there, here, alpha=level) if there > 1 else None
        needed = table.needed(margin, alpha=alpha)
        if there == here and claim.published is None:
            sides = f"{there} runs per side"
        sentence = wording.runs(claim, sides, enough, needed, look.words)
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
        sentence=f"{wording.subject(claim)}: {sentence}",
    )


def _of_distribution(claim: Claim, manifest: Manifest) -> Outlook:
    """The outlook of the runs' shares of samples at one threshold."""
    assert claim.margin is not None
    assert claim.margin.distance is not None
    one = _of_shift(claim, manifest)
    if one.narrowest is None or min(one.seeds, one.rerun_seeds) < 2:
        sentence = wording.scatter(claim, "", None, "")
        return replace(one, narrowest=None, sentence=f"{wording.subject(claim)}: {sentence}")
    distance = claim.margin.distance
    low, high = (stats.samples_for_sd(distance / narrowest) for narrowest in one.narrowest)
    return replace(
        one, runs=(low, high), sentence=f"{one.sentence}; {wording.samples((low, high))}"
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
        sentence=f"{wording.subject(claim)}: {wording.bad_runs(seeds)}",
    )
