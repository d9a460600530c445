"""What an author is told of a claim's margin, in sentences with one reading."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count

from capsule import stats
from capsule.manifest.model import Claim

_NO_SPREAD = "one run tells no spread, so nobody can confirm any margin"
_POINT = " at one step of the curve"
FIRST_LOOK = " at the first look"
_SHARES = (10, 5)  # of bad runs, in percent
_LEAST = 1e-300  # its third digit is still a double


def sides(claim: Claim, there: int, here: int) -> str:
    """The runs that a claim will be judged by.

    Args:
        claim: The claim.
        there: The original's runs, or those that were published.
        here: The re-execution's.
    """
    if claim.published is not None:
        return f"{there} published runs and {here} seeds"
    return f"{there} seeds" if there == here else f"{there} seeds and {here} fresh ones"


def scatter(claim: Claim, runs: str, reach: tuple[float, float] | None, look: str) -> str:
    """How little runs must scatter for a margin in the metric's own unit to be confirmed.

    Args:
        claim: One whose margin is absolute, relative or a ratio.
        runs: Both sides, in words.
        reach: The narrowest margins that they confirm with either power, in standard deviations
            between runs; None where they confirm none.
        look: `FIRST_LOOK`, or nothing for the last.

    >>> from capsule.manifest.model import Margin
    >>> claim = Claim(metric="a/b/c/d", type="equivalence", margin=Margin(relative=0.05))
    >>> scatter(claim, "5 seeds", (2.16, 2.53), "").partition(",")[0]
    '5 seeds confirm 5 % with probability 0.8 if runs scatter by less than 2.31 %'
    """
    size, show = _margin(claim)
    if reach is None:
        return f"{_NO_SPREAD}: {show(size)} needs two runs on each side at least"
    low, high = (show(_scatter(claim, size, narrowest)) for narrowest in reach)
    point = _POINT if claim.type == "curve" else ""
    return (
        f"{runs} confirm {show(size)}{point}{look} with probability 0.8 if runs scatter by less"
        f" than {low}, with 0.9 if by less than {high} (the standard deviation between runs)"
    )


def pairs(
    claim: Claim, seeds: int, spreads: float | None, reach: tuple[float, float] | None
) -> str:
    """How little the differences of runs under equal seeds must scatter for a margin to hold.

    Args:
        claim: A paired one.
        seeds: Of which both sides have a run.
        spreads: The margin in the original's own standard deviations, None where it is a number.
        reach: As for `scatter`, in standard deviations of the differences.

    >>> claim = Claim(metric="a/b/c/d", type="equivalence", paired=True)
    >>> pairs(claim, 5, 2.0, (2.5, 2.9)).partition(" (")[0]
    '5 pairs, margin 2 sd: usually enough if their differences scatter by less than 0.8 sd'
    """
    size, show = _margin(claim) if spreads is None else (spreads, lambda part: f"{part:g} sd")
    if reach is None:
        return f"{_NO_SPREAD}: {show(size)} needs two pairs at least"
    low, high = (show(_scatter(claim, size, narrowest)) for narrowest in reach)
    if spreads is not None:
        return (
            f"{seeds} pairs, margin {show(size)}: usually enough if their differences scatter by"
            f" less than {low} (sd is the original's standard deviation between its runs)"
        )
    return (
        f"{seeds} pairs confirm {show(size)} with probability 0.8 if their differences scatter by"
        f" less than {low}, with 0.9 if by less than {high} (the standard deviation between"
        " differences)"
    )


def runs(
    claim: Claim, runs: str, margin: float, enough: str | None, needed: int | None, look: str
) -> str:
    """Return whether runs are enough for a margin in standard deviations between runs.

    Args:
        claim: The claim.
        runs: Both sides, in words.
        margin: So many standard deviations that the original's runs show.
        enough: How often they are, None for an original of one run.
        needed: The runs on each side that usually are, None for more than the table has.
        look: As for `scatter`.
    """
    point = _POINT if claim.type == "curve" else ""
    unit = "(standard deviations between the original's runs)"
    fact = _NO_SPREAD if enough is None else f"{enough} enough{point}{look}"
    sentence = f"{runs}, margin {margin:g} sd {unit}: {fact}"
    if enough == "usually":
        return sentence
    return f"{sentence}; {needed or 'more than 50'} a side are usually enough"


def bad_runs(seeds: int) -> str:
    """What runs that all keep a bound say of the runs that nobody made.

    >>> bad_runs(5).partition("at most ")[2]
    '45.1 % of all runs break it; 10 % takes 29 re-runs, 5 % takes 59'
    """
    runs = "one re-run keeps" if seeds == 1 else f"{seeds} re-runs keep"
    shares = (f"{share} % takes {_runs_to_exclude(share / 100)}" for share in _SHARES)
    return (
        f"a run beyond the bound is DIFFERENT at once; if {runs} it, with 95 % confidence at most"
        f" {100 * stats.failure_bound(0, seeds):.1f} % of all runs break it;"
        f" {' re-runs, '.join(shares)}"
    )


def _runs_to_exclude(share: float) -> int:
    return next(runs for runs in count(1) if stats.failure_bound(0, runs) <= share)


def _margin(claim: Claim) -> tuple[float, Callable[[float], str]]:
    """The margin that the author gave, and how a number of its kind is written."""
    margin = claim.margin
    assert margin is not None
    if margin.relative is not None:
        return margin.relative, lambda part: f"{100 * part:g} %"
    if margin.ratio is not None:
        return margin.ratio, lambda factor: f"a factor of {factor:g}"
    assert margin.absolute is not None
    return margin.absolute, lambda value: f"{value:g}"


def _scatter(claim: Claim, size: float, narrowest: float) -> float:
    """The standard deviation of which a margin of `size` is so many times, rounded down."""
    if claim.margin is not None and claim.margin.ratio is not None:
        return 1 + _round_down(math.expm1(math.log(size) / narrowest))
    return _round_down(size / narrowest)


def _round_down(value: float) -> float:
    """Three digits that promise no more than the number does.

    >>> _round_down(0.023698), _round_down(0.29), _round_down(12345.6)
    (0.0236, 0.29, 12300.0)
    """
    if value < _LEAST:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    # 0.29 / 0.001 is less than 290
    return float(f"{math.floor(round(value / unit, 9)) * unit:.3g}")
