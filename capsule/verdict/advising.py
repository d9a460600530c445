"""What would decide an open claim: so many more, none at all, or too many to be had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from capsule import stats
from capsule.verdict.model import POWERS, Advice

_MOST = 500
_TOO_FEW = "no number of re-runs decides this: the original itself has "
_NEAR = f"the estimate sits on the margin: more than {_MOST} runs would be needed"
ORIGINAL_OF_ONE_RUN = Advice(answer="original-too-few", sentence=f"{_TOO_FEW}one run")
_Two = tuple[int | None, int | None]


def runs(
    a: stats.Runs | stats.Summary | None,
    b: stats.Runs,
    interval: stats.Interval,
    region: stats.Region,
) -> Advice:
    """How many runs of the re-execution decide a claim, with the original as it is.

    Args:
        a: The original's side, None for a constant.
        b: The re-execution's runs so far.
        interval: Their interval.
        region: What is allowed.
    """
    if a is not None and a.n < 2:
        return ORIGINAL_OF_ONE_RUN

    def answers(truth: float) -> tuple[stats.Answer, stats.Answer]:
        at_truth = replace(interval, estimate=truth)
        low, high = (stats.runs_to_decide(a, b, at_truth, region, power=power) for power in POWERS)
        return low, high

    as_seen = answers(interval.estimate)
    if a is None:  # no location is more likely than the one seen
        return _advice(as_seen, None, b.n)
    return _advice(as_seen, answers(0.0), b.n)


def pairs(
    differences: stats.Runs, interval: stats.Interval, region: stats.Region, *, more: bool = False
) -> Advice:
    """How many seeds both sides would need.

    Args:
        differences: Of each seed.
        interval: Of their mean.
        region: What is allowed.
        more: Whether both sides can be run again; a re-execution can't add to the original's.
    """
    low, high = (
        stats.runs_to_decide(None, differences, interval, region, power=power) for power in POWERS
    )
    if isinstance(low, str):
        return Advice(answer="on-the-margin", sentence=_NEAR)
    higher = f", {high} with power 0.9" if isinstance(high, int) else ""
    decides = f"{low} pairs would decide with power 0.8{higher}"
    if more:
        numbers = _numbers((low, high))
        return Advice(
            answer="runs", as_seen=numbers, sentence=f"{decides} (`capsule pair --pairs {low}`)"
        )
    return Advice(answer="original-too-few", sentence=f"{_TOO_FEW}too few seeds, {decides}")


def samples(count: Callable[[float], int | None], *, possible: bool) -> Advice:
    """How many independent samples of the re-execution tell two distributions to be close.

    Args:
        count: Of a power: how many in all, if the two are equal; None where no number does.
        possible: Whether the distance seen leaves room on either side of the margin.
    """
    if not possible:
        return Advice(
            answer="on-the-margin", sentence="the distance seen sits on the margin that is allowed"
        )
    low, high = count(POWERS[0]), count(POWERS[1])
    if low is None:
        return Advice(answer="original-too-few", sentence=f"{_TOO_FEW}too few samples")
    more = f", {high} with power 0.9" if high is not None else ""
    return Advice(
        answer="samples",
        if_equal=(low, high),
        sentence=f"{low} independent samples of the re-execution decide this with power 0.8{more},"
        " if the two distributions are equal",
    )


def failures(failed_a: int, n_a: int, failed_b: int, n_b: int) -> Advice:
    """How many runs of the re-execution make up for failures that may have been chance.

    Args:
        failed_a: The original's failures.
        n_a: The original's runs, at least one.
        failed_b: The re-execution's failures so far.
        n_b: The re-execution's runs so far.
    """
    low, high = (stats.runs_to_lift(failed_a, n_a, failed_b, n_b, power=power) for power in POWERS)
    if low is None:
        return Advice(
            answer="on-the-margin",
            sentence=f"more than {_MOST} runs would be needed to make up for these failures",
        )
    return Advice(
        answer="runs",
        if_equal=(low, high),
        sentence=f"{low} runs of the re-execution in all (now {n_b}) make up for these failures"
        f" with power 0.8{_higher((low, high))}, if further ones fail as often as the original's",
    )


def _advice(
    seen: tuple[stats.Answer, stats.Answer],
    equal: tuple[stats.Answer, stats.Answer] | None,
    have: int,
) -> Advice:
    as_seen = _numbers(seen)
    if_equal = (None, None) if equal is None else _numbers(equal)
    if as_seen[0] is not None:
        sentence = (
            f"{as_seen[0]} runs of the re-execution in all (now {have}) decide this with power 0.8"
            f"{_higher(as_seen)}, if the shift seen is the true one"
        )
        if if_equal[0] is not None:
            sentence += f"; {if_equal[0]} with power 0.8{_higher(if_equal)}, if there is no shift"
        return Advice(answer="runs", as_seen=as_seen, if_equal=if_equal, sentence=sentence)
    margin = seen[0] == "on-the-margin"
    sentence = _NEAR if margin else f"{_TOO_FEW}too few runs"
    if if_equal[0] is not None:
        sentence = (
            f"if the shift seen is the true one, {sentence}; if there is none, {if_equal[0]} runs"
            f" of the re-execution in all (now {have}) decide this with power 0.8"
            f"{_higher(if_equal)}"
        )
    return Advice(
        answer="on-the-margin" if margin else "original-too-few",
        if_equal=if_equal,
        sentence=sentence,
    )


def _numbers(answers: tuple[stats.Answer, stats.Answer]) -> _Two:
    low, high = (answer if isinstance(answer, int) else None for answer in answers)
    return low, high


def _higher(numbers: _Two) -> str:
    return "" if numbers[1] is None else f", {numbers[1]} with power 0.9"
