"""Facts that weaken a verdict, for its first lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from capsule import averages, quick
from capsule.diff import days, words
from capsule.diff.names import Names
from capsule.manifest import otherdevice
from capsule.notes import Note
from capsule.record import FrozenClaim, Record
from capsule.summary import MetricRuns

if TYPE_CHECKING:
    from capsule.diff import Pair

MAX_ALPHA = 0.1
MAX_FAILURE_MARGIN = 0.3
# a factor or a distance from which on a margin excludes next to nothing
_VAGUE_FACTOR = 10.0
_VAGUE_DISTANCE = 0.5
_SHIFTS = ("equivalence", "noninferiority", "prediction", "curve")
# these leave nothing to chance
_WITHOUT_CHANCE = ("exact", "bound")
_HASTE = 0.1
# shorter trials are mostly the start of a process, which a warm cache shortens by as much
_MIN_TRIAL_SECONDS = 1.0


class Vagueness(NamedTuple):
    """Reason why a margin allows almost anything.

    Attributes:
        reason: The margin is at least the mean; it is a wide factor or distance; or the constants
            exclude no possible value.
        margin: On the metric's own scale, None for constants.
        mean: Mean of the original, None unless the margin is compared with it.
    """

    reason: Literal["mean", "factor", "distance", "constants"]
    margin: float | None = None
    mean: float | None = None


def notes(original: Record, rerun: Record, pairs: Sequence[Pair], names: Names) -> Iterator[Note]:
    """Yield what weakens a verdict: of its runs, of its claims, of the time that trials took."""
    deciding = [pair for pair in pairs if _decides(pair)]
    yield from _interruptions(deciding, names)
    yield from days.notes(pairs)
    yield from _vague_margins(deciding)
    yield from _lax_levels(deciding)
    yield from _lax_failures(deciding)
    # the variants of a pair, and another device, may be faster on purpose
    of_pair = any(pair.seeds == "pair" for pair in pairs)
    if not of_pair and not otherdevice.differ(original.manifest, rerun.manifest):
        yield from _hasty_trials(original, rerun)


def _decides(pair: Pair) -> bool:
    is_judged = pair.skipped is None and pair.altered is None and not pair.is_moved
    return is_judged and pair.claim is not None and quick.decides(pair.claim)


def interruptions(side: MetricRuns | None) -> int:
    """Return how many attempts of a side's runs were interrupted."""
    return 0 if side is None else sum(run.interrupted for run in side.runs)


def _interruptions(pairs: Sequence[Pair], names: Names) -> Iterator[Note]:
    of_machines = [pair for pair in pairs if days.is_of_a_machine(pair)]
    found = []
    for name, metrics in (
        (names.there, [pair.original for pair in of_machines]),
        (names.here, [pair.rerun for pair in of_machines]),
    ):
        runs = {
            run.trial: run.interrupted for one in metrics if one is not None for run in one.runs
        }
        if attempts := sum(runs.values()):
            first = next(trial for trial, number in runs.items() if number)
            found.append((name, attempts, first))
    if found:
        sides = tuple((name, attempts) for name, attempts, _ in found)
        yield words.interrupted_attempts(sides=sides, first=found[0][2])


def _vague_margins(pairs: Sequence[Pair]) -> Iterator[Note]:
    found = [
        (pair.metric, vague)
        for pair in pairs
        if pair.claim is not None and (vague := find_vagueness(pair.claim, pair.original))
    ]
    if found:
        metric, vague = found[0]
        yield words.vague_margins(metric=_name(metric), claims=len(found), **vague._asdict())


def find_vagueness(claim: FrozenClaim, original: MetricRuns | None) -> Vagueness | None:
    """Return why the margin of a claim allows almost anything; None if it does not.

    Args:
        claim: The claim.
        original: The original's runs, with the values that the claim judges.
    """
    if claim.type == "distribution":
        distance = claim.upper or 0.0
        return Vagueness("distance", distance) if distance >= _VAGUE_DISTANCE else None
    if claim.type == "threshold":
        return _vague_constants(claim, original)
    end = claim.upper if claim.upper is not None else -(claim.lower or 0.0)
    if claim.type not in _SHIFTS or end <= 0:
        return None
    if claim.scale == "log":
        factor = math.exp(min(end, 700.0))
        # the frozen logarithm of 10 is no more than rounding below it
        return Vagueness("factor", factor) if factor > _VAGUE_FACTOR * (1 - 1e-9) else None
    published = claim.pattern.published
    values = (published.mean,) if published else original.values if original else ()
    # around 0 a margin beyond the mean can be narrow
    if not values or min(values) <= 0 <= max(values):
        return None
    mean = math.fsum(value / len(values) for value in values)
    return Vagueness("mean", end, mean) if end >= abs(mean) else None


def _vague_constants(claim: FrozenClaim, original: MetricRuns | None) -> Vagueness | None:
    """Compare the constants of a threshold with the values that the metric can have."""
    at_least, at_most = claim.pattern.at_least, claim.pattern.at_most
    if original is None or not original.values:
        return None
    is_fraction = original.test_set is not None
    if not is_fraction and original.kind != "machine":
        return None
    whole = math.inf
    if is_fraction:
        whole = 100.0 if original.unit == "%" else 1.0
    if not 0 <= min(original.values) <= max(original.values) <= whole:
        return None
    is_vague = (at_least is None or at_least <= 0) and (at_most is None or at_most >= whole)
    return Vagueness("constants") if is_vague else None


def _lax_levels(pairs: Sequence[Pair]) -> Iterator[Note]:
    found = [
        (pair.claim.alpha, pair.metric)
        for pair in pairs
        if pair.claim is not None
        and pair.claim.type not in _WITHOUT_CHANCE
        and pair.claim.alpha > MAX_ALPHA
    ]
    if found:
        alpha, metric = max(found, key=lambda one: one[0])
        yield words.lax_levels(metric=_name(metric), claims=len(found), alpha=alpha)


def _lax_failures(pairs: Sequence[Pair]) -> Iterator[Note]:
    found = [
        (margin, pair.metric)
        for pair in pairs
        if pair.claim is not None
        and (margin := pair.claim.pattern.failure_margin) is not None
        and margin > MAX_FAILURE_MARGIN
    ]
    if found:
        margin, metric = max(found, key=lambda one: one[0])
        yield words.lax_failures(metric=_name(metric), claims=len(found), margin=margin)


def _hasty_trials(original: Record, rerun: Record) -> Iterator[Note]:
    """Yield the note on trials that were much faster than the original's of the same subject."""
    there = {
        subject: middle
        for subject, trials in _seconds(original).items()
        if (middle := averages.median(list(trials.values()))) is not None
        and middle >= _MIN_TRIAL_SECONDS
    }
    trials = [
        (trial, seconds, there[subject])
        for subject, own in _seconds(rerun).items()
        if subject in there
        for trial, seconds in own.items()
    ]
    hasty = [one for one in trials if one[1] < _HASTE * one[2]]
    if hasty:
        trial, seconds, usual = hasty[0]
        yield words.hasty_trials(
            hasty=len(hasty), trials=len(trials), first=trial, seconds=seconds, usual=usual
        )


def _seconds(record: Record) -> Mapping[str, Mapping[str, float]]:
    """Return the time of each completed trial, by its benchmark, case and framework."""
    subjects: dict[str, dict[str, float]] = {}
    for one in record.attempts:
        # a training that an earlier attempt began is shorter than the whole
        if one.outcome == "completed" and one.seconds is not None and one.resumed_after is None:
            subjects.setdefault(one.trial.rpartition("/")[0], {})[one.trial] = one.seconds
    return subjects


def _name(metric: str) -> str:
    return metric.rpartition("/")[2]
