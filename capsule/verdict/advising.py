"""What would decide an open claim: so many more, none at all, or too many to be had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from capsule import stats
from capsule.verdict.model import POWERS, Advice

_MOST = 500
_TOO_FEW = "no number of re-runs decides this: the original itself has "
_NEAR = f"the estimate sits on the margin: more than {_MOST} runs would be needed"
_Two = tuple[int | None, int | None]


def runs(
    a: stats.Runs | stats.Summary | None, b: stats.Runs, found: stats.Interval, region: stats.Region
) -> Advice:
    """How many runs of the re-execution decide a claim, with the original as it is.

    Args:
        a: The original's side, None for a constant.
        b: The re-execution's runs so far.
        found: Their interval.
        region: What is allowed.
    """
    if a is not None and a.n < 2:
        return Advice(answer="original-too-few", sentence=f"{_TOO_FEW}one run")

    def needed(truth: float) -> tuple[stats.Answer, stats.Answer]:
        seen = replace(found, estimate=truth)
        low, high = (stats.runs_needed(a, b, seen, region, power=power) for power in POWERS)
        return low, high

    seen = needed(found.estimate)
    if a is None:  # no location is more likely than the one seen
        return _worded(seen, None, b.n)
    return _worded(seen, needed(0.0), b.n)


def pairs(differences: stats.Runs, found: stats.Interval, region: stats.Region) -> Advice:
    """How many seeds both sides would need: a re-execution can't add to those of the original."""
    low, high = (
        stats.runs_needed(None, differences, found, region, power=power) for power in POWERS
    )
    if isinstance(low, str):
        return Advice(answer="on-the-margin", sentence=_NEAR)
    more = f", {high} with power 0.9" if isinstance(high, int) else ""
    return Advice(
        answer="original-too-few",
        sentence=f"{_TOO_FEW}too few seeds, {low} pairs would decide with power 0.8{more}",
    )


def samples(needed: Callable[[float], int | None], *, possible: bool) -> Advice:
    """How many independent samples of the re-execution tell two distributions to be close.

    Args:
        needed: Of a power: how many in all, if the two are equal; None where no number does.
        possible: Whether the distance seen leaves room on either side of the margin.
    """
    if not possible:
        return Advice(
            answer="on-the-margin", sentence="the distance seen sits on the margin that is allowed"
        )
    low, high = needed(POWERS[0]), needed(POWERS[1])
    if low is None:
        return Advice(answer="original-too-few", sentence=f"{_TOO_FEW}too few samples")
    more = f", {high} with power 0.9" if high is not None else ""
    return Advice(
        answer="samples",
        if_equal=(low, high),
        sentence=f"{low} independent samples of the re-execution decide this with power 0.8{more},"
        " if the two distributions are equal",
    )


def _worded(
    seen: tuple[stats.Answer, stats.Answer],
    equal: tuple[stats.Answer, stats.Answer] | None,
    have: int,
) -> Advice:
    as_seen = _numbers(seen)
    if_equal = (None, None) if equal is None else _numbers(equal)
    if as_seen[0] is not None:
        told = (
            f"{as_seen[0]} runs of the re-execution in all (now {have}) decide this with power 0.8"
            f"{_higher(as_seen)}, if the shift seen is the true one"
        )
        if if_equal[0] is not None:
            told += f"; {if_equal[0]} with power 0.8{_higher(if_equal)}, if there is no shift"
        return Advice(answer="runs", as_seen=as_seen, if_equal=if_equal, sentence=told)
    margin = seen[0] == "on-the-margin"
    told = _NEAR if margin else f"{_TOO_FEW}too few runs"
    if if_equal[0] is not None:
        told = (
            f"if the shift seen is the true one, {told}; if there is none, {if_equal[0]} runs of"
            f" the re-execution in all (now {have}) decide this with power 0.8{_higher(if_equal)}"
        )
    return Advice(
        answer="on-the-margin" if margin else "original-too-few", if_equal=if_equal, sentence=told
    )


def _numbers(answers: tuple[stats.Answer, stats.Answer]) -> _Two:
    low, high = (each if isinstance(each, int) else None for each in answers)
    return low, high


def _higher(numbers: _Two) -> str:
    return "" if numbers[1] is None else f", {numbers[1]} with power 0.9"
