"""What would decide an open claim: so many more, none at all, or too many to be had."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from capsule import stats
from capsule.diff.inability import Fault
from capsule.verdict.model import FURTHER_LOOKS, POWERS, Advice, Judged, Look

_MOST = 500
# of a pair any number is told, since it says how noisy the machine is
_MOST_ROUNDS = 1_000_000
MOST_OF_A_PAIR = 1000
_TOO_FEW = "no number of re-runs decides this: the original itself has "
_NEAR = f"the estimate sits on the margin: more than {_MOST} runs would be needed"
ORIGINAL_OF_ONE_RUN = Advice(answer="original-too-few", sentence=f"{_TOO_FEW}one run")
_Two = tuple[int | None, int | None]


def runs(
    judged: Judged,
    a: stats.Runs | stats.Summary | None,
    b: stats.Runs,
    interval: stats.Interval,
    region: stats.Region,
) -> Advice:
    """How many runs of the re-execution decide a claim, with the original as it is.

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
        at_truth = replace(interval, estimate=truth)

        def fewest(power: float, part: float) -> stats.Answer:
            scaled = replace(at_truth, alpha=at_truth.alpha * part)
            return stats.runs_to_decide(a, b, scaled, region, power=power)

        low, high = (_at_its_level(judged, power, fewest) for power in POWERS)
        return low, high

    as_seen = answers(interval.estimate)
    # of a constant no location is more likely than the one seen
    advice = _advice(as_seen, None if a is None else answers(0.0), b.n)
    return replace(advice, sentence=advice.sentence + _name_levels(judged, advice))


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
    number = fewest(power, _planned_level(judged, look) / look.alpha)
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
        sentence=f"{look.runs} runs are the last of {FURTHER_LOOKS} looks: the error rate allows no"
        " further one",
    )


def _planned_level(judged: Judged, look: Look) -> float:
    return stats.nominal_alpha(judged.alpha, len(look.planned))


def _further_level(judged: Judged) -> float:
    return stats.nominal_alpha(judged.alpha, FURTHER_LOOKS)


def _name_levels(judged: Judged, advice: Advice) -> str:
    """At which level the advised numbers of runs will be judged."""
    if judged.look is None:
        return ""
    numbers = {number for number in (*advice.as_seen, *advice.if_equal) if number is not None}
    looks = sorted(numbers & set(judged.look.planned))
    parts = []
    if looks:
        named = " and ".join(map(str, looks))
        level = f"{_planned_level(judged, judged.look):.3g}"
        parts.append(f"{named} as planned look{'s' * (len(looks) > 1)}, judged at {level}")
    if numbers - set(looks):
        level = f"{_further_level(judged):.3g}"
        parts.append(f"{'others' if looks else 'as no planned look'}, judged at {level}")
    return f" ({'; '.join(parts)})" if parts else ""


def pairs(differences: stats.Runs, interval: stats.Interval, region: stats.Region) -> Advice:
    """How many seeds both sides would need, which a re-execution cannot add to the original's.

    Args:
        differences: Of each seed.
        interval: Of their mean.
        region: What is allowed.
    """
    low, high = (
        stats.runs_to_decide(None, differences, interval, region, power=power) for power in POWERS
    )
    if isinstance(low, str):
        return Advice(answer="on-the-margin", sentence=_NEAR)
    higher = f", {high} with power 0.9" if isinstance(high, int) else ""
    decides = f"{low} pairs would decide with power 0.8{higher}"
    return Advice(answer="original-too-few", sentence=f"{_TOO_FEW}too few seeds, {decides}")


def rounds(differences: stats.Runs, interval: stats.Interval, region: stats.Region) -> Advice:
    """How many rounds a new pair would need, however many these are.

    Args:
        differences: Of each round so far.
        interval: Of their mean.
        region: What is allowed.
    """

    def numbers(truth: float) -> _Two:
        at_truth = replace(interval, estimate=truth)
        low, high = (
            stats.runs_to_decide(
                None, differences, at_truth, region, power=power, most=_MOST_ROUNDS
            )
            for power in POWERS
        )
        return _numbers((low, high))

    seen, equal = numbers(interval.estimate), numbers(0.0)
    if seen[0] is None:
        sentence = "the ratio seen sits on the margin"
    else:
        sentence = (
            f"{seen[0]} pairs (now {differences.n}) would decide this with power 0.8"
            f"{_higher(seen)}, if the ratio seen is the true one"
        )
    if equal[0] is not None:
        sentence += f"; {equal[0]} with power 0.8{_higher(equal)}, if the sides are equal"
    wanted = seen[0] or equal[0]
    if wanted is not None and wanted <= MOST_OF_A_PAIR:
        sentence += f" (`capsule pair --pairs {wanted}`)"
    elif wanted is not None:
        sentence += (
            f"; one pair takes up to {MOST_OF_A_PAIR}: longer runs or a quieter machine need fewer"
        )
    none = wanted is None
    return Advice(
        answer="on-the-margin" if none else "runs", as_seen=seen, if_equal=equal, sentence=sentence
    )


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


def failure_margin(
    judged: Judged, failed_a: int, n_a: int, failed_b: int, n_b: int, *, margin: float
) -> Advice:
    """How many runs of the re-execution confirm that failures are as rare as in the original.

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
    if not isinstance(low, int):
        sentence = f"{_TOO_FEW}too few runs to tell how often they fail"
        if low == "on-the-margin":
            sentence = f"more than {_MOST} runs would be needed to tell how often they fail"
        return Advice(answer=low, sentence=sentence)
    numbers = _numbers((low, high))
    advice = Advice(
        answer="runs",
        if_equal=numbers,
        sentence=f"{low} runs of the re-execution in all (now {n_b}) confirm the failure margin"
        f" with power 0.8{_higher(numbers)}, if further ones fail as often as the original's",
    )
    return replace(advice, sentence=advice.sentence + _name_levels(judged, advice))


def mend(fault: Fault) -> Advice:
    """What makes a claim that could not be run one that can be."""
    sentences: Mapping[Fault, str] = {
        "seeds": "no number of runs decides this: the author's manifest has to say which seeds"
        ' the benchmark takes, such as "seed_range": [0, 4000000], or the benchmark has to take'
        " every seed below 2^31",
        "machine": "no number of runs decides this: mend what the failed runs lack here, as"
        " their logs in the capsule tell, and verify again",
        "unknown": "`capsule verify` makes a control run under a seed of the original's, which"
        " tells whether the seeds or the machine is at fault",
    }
    return Advice(answer="mend", sentence=sentences[fault])


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
