"""Sentences on the margin of each claim, before a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count

from capsule import freezing, stats
from capsule.manifest.model import Claim, Margin

_NO_SPREAD = "one run gives no spread, so no margin can be confirmed"
_POINTS = {"curve": " at one step of the curve", "distribution": " at one threshold"}
FIRST_LOOK = " at the first look"
_SHARES = (10, 5)  # of bad runs, in percent
_LEAST = 1e-300  # its third digit is still a double


def subject(claim: Claim) -> str:
    """Return what a sentence is about: the claim's label, if it has one, and its metric.

    >>> subject(Claim(metric="a/b/c/d", type="equivalence", label="C1"))
    'C1 (a/b/c/d)'
    """
    return claim.name if claim.label is None else f"{claim.label} ({claim.name})"


def sides(claim: Claim, there: int, here: int) -> str:
    """Return the runs by which a claim will be judged, in words.

    Args:
        claim: The claim.
        there: Number of the original's runs, or of the published ones.
        here: Number of the re-run's.
    """
    if claim.published is not None:
        return f"{there} published runs and {here} seeds"
    return f"{there} seeds" if there == here else f"{there} seeds and {here} fresh seeds"


def scatter(claim: Claim, runs: str, reach: tuple[float, float] | None, look: str) -> str:
    """Return up to which standard deviation a margin in the metric's own unit can be confirmed.

    Args:
        claim: One whose margin is absolute, relative or a ratio.
        runs: Both sides, in words.
        reach: The smallest margins that the runs confirm with either power, in standard deviations
            between runs; None where they confirm none.
        look: `FIRST_LOOK`, or nothing for the last.

    >>> from capsule.manifest.model import Margin
    >>> claim = Claim(metric="a/b/c/d", type="equivalence", margin=Margin(relative=0.05))
    >>> scatter(claim, "5 seeds", (2.16, 2.53), "").partition(" (")[0]
    '5 seeds suffice for a margin of 5 % if runs have a standard deviation below 2.31 %'
    """
    if reach is None:
        return f"{_NO_SPREAD}: the margin {margin(claim)} needs at least two runs per side"
    low, high = limits(claim, reach)
    point = _POINTS.get(claim.type, "")
    values = "the runs' shares of samples" if claim.type == "distribution" else "runs"
    return (
        f"{runs} suffice for a margin of {margin(claim)}{point}{look} if {values} have a standard"
        f" deviation below {low} (80 % chance to confirm it; 90 %: below {high})"
    )


def pairs(claim: Claim, seeds: int, reach: tuple[float, float] | None) -> str:
    """Return up to which standard deviation of paired differences a margin can be confirmed.

    Args:
        claim: A paired one.
        seeds: Seeds of which both sides have a run.
        reach: As for `scatter`, in standard deviations of the differences.

    >>> claim = Claim(metric="a/b/c/d", type="equivalence", paired=True)
    >>> pairs(claim, 5, (2.5, 2.9)).partition(" (")[0]
    '5 pairs usually suffice for a margin of 2 sd if their differences scatter by less than 0.8 sd'
    """
    if reach is None:
        return f"{_NO_SPREAD}: the margin {margin(claim)} needs at least two pairs"
    low, high = limits(claim, reach)
    if freezing.spreads(claim) is not None:
        return (
            f"{seeds} pairs usually suffice for a margin of {margin(claim)} if their differences"
            f" scatter by less than {low} (sd: standard deviation between the original's runs)"
        )
    return (
        f"{seeds} pairs suffice for a margin of {margin(claim)} if their differences have a"
        f" standard deviation below {low} (80 % chance to confirm it; 90 %: below {high})"
    )


def runs(claim: Claim, runs: str, enough: str | None, needed: int | None, look: str) -> str:
    """Return whether runs are enough for a margin in standard deviations between runs.

    Args:
        claim: The claim.
        runs: Both sides, in words.
        enough: How often the runs are enough, None for an original of one run.
        needed: Runs per side that usually are, None for more than the table has.
        look: As for `scatter`.
    """
    point = _POINTS.get(claim.type, "")
    unit = "(sd: standard deviation between the original's runs)"
    fact = _NO_SPREAD if enough is None else f"{enough} enough{point}{look}"
    sentence = f"{runs}, margin {margin(claim)} {unit}: {fact}"
    if enough == "usually":
        return sentence
    return f"{sentence}; {needed or 'more than 50'} runs per side are usually enough"


def samples(counts: tuple[int | None, int | None]) -> str:
    """Return how many samples in each run keep the runs' shares of samples close enough.

    Args:
        counts: Samples per run for either power, None for more than anybody takes.
    """
    low, high = (number or f"more than {stats.MOST_SAMPLES}" for number in counts)
    return (
        f"runs that differ by chance alone need {low} independent samples each for this (90 %:"
        f" {high})"
    )


def bad_runs(seeds: int) -> str:
    """Return which share of bad runs remains possible if all runs keep a bound.

    >>> bad_runs(5).partition("at most ")[2]
    '45.1 % of all runs break it (95 % confidence), 10 % after 29 re-runs, 5 % after 59 re-runs'
    """
    kept = "one re-run keeps" if seeds == 1 else f"{seeds} re-runs keep"
    shares = (f"{share} % after {_runs_to_exclude(share / 100)} re-runs" for share in _SHARES)
    return (
        f"one run beyond the bound is DIFFERENT; if {kept} the bound, at most"
        f" {100 * stats.failure_bound(0, seeds):.1f} % of all runs break it (95 % confidence),"
        f" {', '.join(shares)}"
    )


def _runs_to_exclude(share: float) -> int:
    return next(runs for runs in count(1) if stats.failure_bound(0, runs) <= share)


def margin(claim: Claim) -> str:
    """Return a claim's margin with its unit.

    >>> margin(Claim(metric="a/b/c/d", type="equivalence"))
    '2 sd'
    """
    size, show = _margin(claim)
    return f"{'distance ' if claim.type == 'distribution' else ''}{show(size)}"


def limits(claim: Claim, reach: tuple[float, float]) -> tuple[str, str]:
    """Return the largest standard deviations at which a claim's margin can be confirmed.

    Args:
        claim: The claim.
        reach: The smallest margins that the runs confirm with either power, in such deviations.
    """
    size, show = _margin(claim)
    low, high = (show(_scatter(claim, size, narrowest)) for narrowest in reach)
    return low, high


def _margin(claim: Claim) -> tuple[float, Callable[[float], str]]:
    """Return the size of a margin, and a function that writes a number of its kind."""
    margin = claim.margin or Margin()
    if (spreads := freezing.spreads(claim)) is not None:
        return spreads, lambda part: f"{part:g} sd"
    if margin.relative is not None:
        return margin.relative, lambda part: f"{100 * part:g} %"
    if margin.ratio is not None:
        return margin.ratio, lambda factor: f"factor {factor:g}"
    value = margin.absolute if margin.distance is None else margin.distance
    assert value is not None
    return value, lambda part: f"{part:g}"


def _scatter(claim: Claim, size: float, narrowest: float) -> float:
    """Return the standard deviation of which `size` is `narrowest` times, rounded down."""
    if claim.margin is not None and claim.margin.ratio is not None:
        return 1 + _round_down(math.expm1(math.log(size) / narrowest))
    return _round_down(size / narrowest)


def _round_down(value: float) -> float:
    """Return a number rounded down to three digits, so that it promises no more.

    >>> _round_down(0.023698), _round_down(0.29), _round_down(12345.6)
    (0.0236, 0.29, 12300.0)
    """
    if value < _LEAST:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    # 0.29 / 0.001 is less than 290
    return float(f"{math.floor(round(value / unit, 9)) * unit:.3g}")
