"""Numbers of runs that would decide an open claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from capsule import stats
from capsule.diff.inability import Fault
from capsule.sentences import extend
from capsule.verdict import words
from capsule.verdict.model import FURTHER_LOOKS, POWERS, Advice, Judged, Look

# of a pair any number is told, since it says how noisy the machine is
_MOST_ROUNDS = 1_000_000
MOST_OF_A_PAIR = 1000
ORIGINAL_OF_ONE_RUN = Advice(
    answer="original-too-few", sentence=words.ADVICE("original-of-one-run")
)
OTHER_DEVICE = Advice(answer="mend", sentence=words.ADVICE("other-device"))
_Two = tuple[int | None, int | None]


def runs(
    judged: Judged,
    a: stats.Runs | stats.Summary | None,
    b: stats.Runs,
    interval: stats.Interval,
    region: stats.Region,
) -> Advice:
    """Advise the number of re-runs that decides a claim, with the original as it is.

    A planned look that is still to come is advised where it has the power, else one of twice as
    many runs, or twice that: each as it does at the level that so many runs will be judged at. So
    whoever follows the advice takes five looks at most, and never one for a single run more.

    Args:
        judged: The open claim.
        a: The original's side, None for a constant.
        b: The re-execution's runs so far.
        interval: Their interval.
        region: What is allowed.
    """
    if a is not None and a.n < 2:
        return ORIGINAL_OF_ONE_RUN

    if judged.look is not None and not judged.look.coming:
        return _last_look(judged.look)

    def answers(truth: float) -> tuple[stats.Answer, stats.Answer]:
        def fewest(power: float, part: float) -> stats.Answer:
            scaled = replace(interval, alpha=interval.alpha * part)
            return stats.runs_to_decide(a, b, scaled, region, truth=truth, power=power)

        low, high = (_at_its_level(judged, power, fewest) for power in POWERS)
        return low, high

    as_seen = answers(interval.estimate)
    # of a constant no location is more likely than the one seen
    advice = _advice(as_seen, None if a is None else answers(0.0), b.n)
    return _name_levels(judged, advice)


def _at_its_level(
    judged: Judged, power: float, fewest: Callable[[float, float], stats.Answer]
) -> stats.Answer:
    """The number of runs that decides, at the level of a planned look where it is one.

    Args:
        judged: The open claim.
        power: Wanted.
        fewest: Of the power, and by what the interval's level is multiplied: how many runs.
    """
    look = judged.look
    if look is None:
        return fewest(power, 1.0)
    number = fewest(power, look.planned_alpha / look.alpha)
    if isinstance(number, int):
        for runs in look.planned:
            if runs >= number and runs > look.runs:
                return runs
    number = fewest(power, _further_level(judged) / look.alpha)
    if isinstance(number, str):
        return number
    further = (runs for runs in look.coming if runs not in look.planned)
    return next((runs for runs in further if runs >= number), number)


def _last_look(look: Look) -> Advice:
    return Advice(
        answer="looks-taken",
        sentence=words.ADVICE("looks-taken", runs=look.runs, looks=FURTHER_LOOKS),
    )


def _further_level(judged: Judged) -> float:
    return stats.nominal_alpha(judged.alpha, FURTHER_LOOKS)


def _name_levels(judged: Judged, advice: Advice) -> Advice:
    """The same advice, with the levels at which its numbers of runs will be judged."""
    if judged.look is None:
        return advice
    numbers = {number for number in (*advice.as_seen, *advice.if_equal) if number is not None}
    looks = sorted(numbers & set(judged.look.planned))
    tail = words.advice.levels(
        planned=tuple(looks),
        planned_level=judged.look.planned_alpha,
        has_others=bool(numbers - set(looks)),
        other_level=_further_level(judged),
    )
    return replace(advice, sentence=extend(advice.sentence, tail))


def pairs(differences: stats.Runs, interval: stats.Interval, region: stats.Region) -> Advice:
    """Advise the number of seeds for both sides, which a re-run cannot add to the original.

    Args:
        differences: Of each seed.
        interval: Of their mean.
        region: What is allowed.
    """
    low, high = (
        stats.runs_to_decide(None, differences, interval, region, power=power) for power in POWERS
    )
    numbers = _numbers((low, high))
    return Advice(
        answer="on-the-margin" if numbers[0] is None else "original-too-few",
        sentence=words.advice.more_pairs(pairs=numbers[0], pairs_surely=numbers[1]),
    )


def rounds(
    differences: stats.Runs,
    interval: stats.Interval,
    region: stats.Region,
    *,
    are_blocks: bool = False,
) -> Advice:
    """Advise the number of rounds of a new pair.

    Args:
        differences: Of each round so far, or of blocks of two rounds.
        interval: Of their mean.
        region: What is allowed.
        are_blocks: Whether they are of blocks.
    """

    def numbers(truth: float) -> _Two:
        at_truth = replace(interval, estimate=truth)
        low, high = (
            stats.runs_to_decide(
                None, differences, at_truth, region, power=power, most=_MOST_ROUNDS
            )
            for power in POWERS
        )
        found = _numbers((low, high))
        return _in_rounds(found[0], are_blocks), _in_rounds(found[1], are_blocks)

    seen, equal = numbers(interval.estimate), numbers(0.0)
    return Advice(
        answer="on-the-margin" if (seen[0] or equal[0]) is None else "runs",
        as_seen=seen,
        if_equal=equal,
        sentence=words.advice.rounds(
            now=differences.n * (1 + are_blocks), as_seen=seen, if_equal=equal, most=MOST_OF_A_PAIR
        ),
    )


def _in_rounds(number: int | None, are_blocks: bool) -> int | None:
    """Return how many rounds such differences take, as a pair of so many rounds judges them."""
    if number is None:
        return None
    if are_blocks:
        return 2 * max(number, stats.FEWEST_BLOCKS)
    # a block of two more makes up for half the degrees of freedom
    return number if number < 2 * stats.FEWEST_BLOCKS else number + 2 + number % 2


def failures(failed_a: int, n_a: int, failed_b: int, n_b: int) -> Advice:
    """Advise the number of re-runs that makes up for failures by chance.

    Args:
        failed_a: The original's failures.
        n_a: The original's runs, at least one.
        failed_b: The re-execution's failures so far.
        n_b: The re-execution's runs so far.
    """
    low, high = (stats.runs_to_lift(failed_a, n_a, failed_b, n_b, power=power) for power in POWERS)
    sentence = words.advice.fewer_failures(now=n_b, needed=(low, high))
    if low is None:
        return Advice(answer="on-the-margin", sentence=sentence)
    return Advice(answer="runs", if_equal=(low, high), sentence=sentence)


def failure_margin(
    judged: Judged, failed_a: int, n_a: int, failed_b: int, n_b: int, *, margin: float
) -> Advice:
    """Advise the number of re-runs that confirms the failure margin.

    Args:
        judged: The claim, whose values are reproduced.
        failed_a: The original's failures.
        n_a: The original's runs.
        failed_b: The re-execution's failures so far.
        n_b: The re-execution's runs so far.
        margin: How far the two rates may be apart.
    """

    def fewest(power: float, part: float) -> stats.Answer:
        return stats.runs_to_confirm_rate(
            failed_a, n_a, failed_b, n_b, margin=margin, alpha=judged.level * part, power=power
        )

    low, high = (_at_its_level(judged, power, fewest) for power in POWERS)
    numbers, is_near = _numbers((low, high)), low == "on-the-margin"
    sentence = words.advice.failure_margin(now=n_b, needed=numbers, is_near=is_near)
    if not isinstance(low, int):
        return Advice(answer=low, sentence=sentence)
    return _name_levels(judged, Advice(answer="runs", if_equal=numbers, sentence=sentence))


def mend(fault: Fault) -> Advice:
    """Advise how a claim that could not run can be run."""
    return Advice(answer="mend", sentence=words.advice.mend(fault=fault))


def _advice(
    seen: tuple[stats.Answer, stats.Answer],
    equal: tuple[stats.Answer, stats.Answer] | None,
    have: int,
) -> Advice:
    as_seen = _numbers(seen)
    if_equal = (None, None) if equal is None else _numbers(equal)
    is_near = seen[0] == "on-the-margin"
    sentence = words.advice.runs(now=have, as_seen=as_seen, if_equal=if_equal, is_near=is_near)
    if as_seen[0] is not None:
        return Advice(answer="runs", as_seen=as_seen, if_equal=if_equal, sentence=sentence)
    return Advice(
        answer="on-the-margin" if is_near else "original-too-few",
        if_equal=if_equal,
        sentence=sentence,
    )


def _numbers(answers: tuple[stats.Answer, stats.Answer]) -> _Two:
    low, high = (answer if isinstance(answer, int) else None for answer in answers)
    return low, high
