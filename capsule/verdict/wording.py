"""Sentences that a referee accepts: a number, where its limits lie, and whose margin was used."""

from __future__ import annotations

import math

from capsule.manifest import Margin
from capsule.record import FrozenClaim
from capsule.summary import MetricRuns
from capsule.verdict.model import Word


def number(value: float | None, digits: int = 3) -> str:
    """A number as people write it, short enough for a table.

    >>> number(0.00456789), number(1234567.0), number(18.0), number(None)
    ('0.00457', '1.23e+06', '18', 'none')
    """
    if value is None:
        return "none"
    if math.isinf(value):
        return "unbounded"
    return f"{value:.{digits}g}"


def limits(estimate: float | None, lower: float | None, upper: float | None, *, log: bool) -> str:
    """An estimate with its limits, put back from logarithms where they were taken.

    >>> limits(0.0, -0.1, 0.1, log=True)
    '1 (0.905 to 1.11)'
    """
    shown = [natural(value, log=log) for value in (estimate, lower, upper)]
    digits = _digits(shown)
    low, high = (
        "unbounded" if value is None else number(value, digits) for value in (shown[1], shown[2])
    )
    return f"{number(shown[0], digits)} ({low} to {high})"


def natural(value: float | None, *, log: bool) -> float | None:
    """A value on the metric's own scale: a ratio or a value where logarithms were judged."""
    if value is None or not log:
        return value
    return math.exp(value) if value < 700 else math.inf


def _digits(values: list[float | None]) -> int:
    """Significant digits that tell the limits apart, three at least."""
    low, high = values[1], values[2]
    if low is None or high is None or not math.isfinite(high - low) or high == low:
        return 3
    size = max(abs(low), abs(high))
    return min(12, max(3, 2 + math.ceil(math.log10(size) - math.log10(high - low))))


def margin(claim: FrozenClaim, original: MetricRuns) -> str:
    """The frozen margin as a number, and where it came from: never `within 2 sigma`."""
    end = claim.upper if claim.upper is not None else -(claim.lower or 0.0)
    if claim.margin_source == "spread":
        if end == 1.5 * original.resolution:
            return f"{number(end)} (1.5 steps of {number(original.resolution)})"
        return f"{number(end)} (2 sd of the original's {len(original.values)} runs)"
    given = claim.pattern.margin or Margin()
    if claim.scale == "log":
        return f"a factor of {number(math.exp(end), 4)} (the author's margin)"
    if given.relative is not None:
        return f"{number(end)} ({number(100 * given.relative)} % of the original's mean)"
    return f"{number(end)} (the author's margin)"


def equivalence(
    word: Word, found: str, *, claim: FrozenClaim, allowed: str, detectable: bool
) -> str:
    """What was found of a claim that both sides are the same within a margin."""
    subject = f"{'ratio' if claim.scale == 'log' else 'shift'} {found}"
    if word == "REPRODUCED":
        inside = ": detectable but inside the margin" if detectable else ""
        return f"{subject} is within {allowed}{inside}"
    if word == "DIFFERENT":
        return f"{subject} is beyond {allowed}"
    return f"{subject} reaches across {allowed}"


def noninferiority(word: Word, found: str, *, claim: FrozenClaim, allowed: str) -> str:
    """What was found of a claim that the re-execution is no worse than by a margin."""
    subject = f"{'ratio' if claim.scale == 'log' else 'shift'} {found}"
    told = {
        "REPRODUCED": "is not worse by more than",
        "DIFFERENT": "is worse by more than",
        "INCONCLUSIVE": "may or may not be worse by more than",
    }
    return f"{subject} {told[word]} {allowed}"


def threshold(word: Word, found: str, *, claim: FrozenClaim, log: bool) -> str:
    """What was found of a claim that a metric keeps to a constant."""
    told = {"REPRODUCED": "is", "DIFFERENT": "is not", "INCONCLUSIVE": "may or may not be"}
    return f"{'geometric mean' if log else 'mean'} {found} {told[word]} {_bounds(claim)}"


def exact(values: list[tuple[int, float, float]]) -> str:
    """What was found of a claim of equal values, given (seed, original, re-execution) a run."""
    unequal = [one for one in values if repr(one[1]) != repr(one[2])]
    if not unequal:
        return f"all {len(values)} values are equal, seed by seed"
    seed, there, here = unequal[0]
    return (
        f"{len(unequal)} of {len(values)} values differ, first under seed {seed}:"
        f" {there!r} became {here!r}"
    )


def failures(failed_a: int, n_a: int, failed_b: int, n_b: int) -> str:
    """How often either side failed."""
    return f"{failed_a} of {n_a} original runs failed, {failed_b} of {n_b} re-executed ones"


def advice(answer: int | str, have: int) -> str:
    """What would decide an open claim."""
    if answer == "original-too-few":
        return "no number of re-runs decides this: the original itself has too few runs"
    if answer == "on-the-margin":
        return "the estimate sits on the margin: more than 500 runs would be needed"
    return (
        f"{answer} runs of the re-execution in all (now {have}) decide this with power 0.8,"
        " if the shift seen is the true one"
    )


def region(claim: FrozenClaim, original: MetricRuns | None) -> str:
    """What a frozen claim allows, for a table of claims."""
    if claim.type == "exact":
        return "equal values under equal seeds"
    if claim.type == "ratio":
        return "reported only"
    if claim.type == "threshold":
        return _bounds(claim)
    if original is None or (claim.lower is None and claim.upper is None):
        return "no margin"
    allowed = margin(claim, original)
    return f"within {allowed}" if claim.type == "equivalence" else f"no worse than by {allowed}"


def _bounds(claim: FrozenClaim) -> str:
    ends = (("at least", claim.pattern.at_least), ("at most", claim.pattern.at_most))
    return " and ".join(f"{name} {number(value)}" for name, value in ends if value is not None)
