"""Evidence of runs: a run that repeats a seed, or that is a copy, is none.

Nothing here is a proof of intent: a workload that ignores its seed looks like a copy, and says as
little. An author who fabricates runs with care is not found out by this.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from capsule.diff import words
from capsule.levels.catalog import training
from capsule.record import FrozenClaim, Record, Samples
from capsule.sentences import Sentence
from capsule.series import bits
from capsule.summary import MetricRuns, Run

_TIMES = ("s", "ms", "us", "ns")
# so many different numbers of a clock do not follow each other twice by chance
_TELLING = 5
# so many equal values are no accident
_FEW = 3
# a number that takes no more of them was rounded, and may come twice
_DIGITS = 8


def without_repeated_seeds(original: MetricRuns, rerun: MetricRuns) -> MetricRuns:
    """The re-execution's runs but for those under seeds that the original used."""
    used = {run.seed for run in original.runs}
    return replace(rerun, runs=tuple(run for run in rerun.runs if run.seed not in used))


def wide_bound(claim: FrozenClaim, here: Mapping[str, MetricRuns]) -> Sentence | None:
    """Why a value within a bound says nothing: the bound is no small part of what it judges.

    Args:
        claim: Only those on the metrics of `training.SHARES` have such a part beside them.
        here: The re-execution's metrics by path.
    """
    path, _, name = claim.metric.rpartition("/")
    share = here.get(f"{path}/{training.SHARES.get(name)}")
    if claim.type != "bound" or share is None:
        return None
    shares = [
        (math.inf if run.value is None else run.value, run.seed)
        for run in share.runs
        if run.value is not None or run.not_finite is not None
    ]
    wide = [one for one in shares if one[0] > training.MOST_SHARE]
    if not wide:
        return None
    value, seed = max(wide)
    return words.REFUSALS(
        "wide-bound",
        most=training.MOST_SHARE,
        wide=len(wide),
        runs=len(shares),
        share=value,
        seed=seed,
    )


def copy(one: Record, other: Record) -> Sentence | None:
    """Why two records are not of two runs: common runs, or times that never come twice."""
    if reason := common_run(one, other):
        return reason
    seen: dict[tuple[str, bytes], tuple[int, str]] = {}
    for place, record in enumerate((one, other)):
        for name, trial, readings in chain(_clock_readings(record), _trial_readings(record)):
            first = seen.setdefault((name, bits(readings)), (place, trial))
            if first != (place, trial):
                metric = name.rpartition("/")[2]
                return words.REFUSALS("copied-times", trial=trial, first=first[1], metric=metric)
    return None


def common_run(one: Record, other: Record) -> Sentence | None:
    """Return the sentence that two records share runs, or None."""
    if one.uuid == other.uuid:
        return words.REFUSALS("one-run-twice", run=one.uuid)
    if shared := _runs_of(one) & _runs_of(other):
        return words.REFUSALS("common-runs", run=min(shared))
    return None


def _runs_of(record: Record) -> set[str]:
    """Names of the run that a record is of, and of the one that it was made of."""
    before = record.predecessor
    return {record.uuid} if before is None else {record.uuid, before.record.uuid}


def repetition(metric: MetricRuns, side: str) -> Sentence | None:
    """Why the runs of one side are fewer than they look."""
    seeds = {run.seed for run in metric.runs}
    if len(seeds) < len(metric.runs):
        return words.REFUSALS("one-seed-twice", side=side, runs=len(metric.runs), seeds=len(seeds))
    if repeats(metric):
        return words.REFUSALS("constant-runs", side=side, runs=len(metric.values))
    return None


def repeats(metric: MetricRuns) -> bool:
    """Return whether all runs have one value, of a quantity that is not counted and not 0."""
    return is_constant(metric) and metric.values[0] != 0


def is_constant(metric: MetricRuns) -> bool:
    """Return whether every run has the same value, though their seeds differ.

    Counted quantities agree legitimately, and so does an error of exactly 0 at Levels 0 to 3.
    """
    values = metric.values
    alike = len(values) >= _FEW and values[0] == values[-1] and len(set(values)) == 1
    of_command = metric.metric.split("/")[2:3] == ["command"]
    return alike and (of_command or values[0] != 0) and metric.resolution == 0


def reuse(original: MetricRuns, rerun: MetricRuns) -> Sentence | None:
    """Why the re-execution's values are the original's, under other seeds."""
    if {run.seed for run in original.runs} & {run.seed for run in rerun.runs}:
        return None  # a workload that its seed decides gives the same under the same seed
    if not (_shares_values(original, rerun) or _shares_series(original, rerun)):
        return None
    return words.REFUSALS("copied-values")


def _shares_values(original: MetricRuns, rerun: MetricRuns) -> bool:
    different = set(rerun.values)
    if different.isdisjoint(original.values):
        return False
    rounded = rerun.resolution > 0 or any(map(_is_rounded, different))
    enough = len(different) >= (_TELLING if rounded else _FEW)
    same = enough and sorted(rerun.values) == sorted(original.values)
    return same or (not rounded and _is_mostly_copied(original.values, rerun.values))


def _shares_series(original: MetricRuns, rerun: MetricRuns) -> bool:
    # few begin alike, and only of these are more values looked at
    if _first_values(original).isdisjoint(_first_values(rerun)):
        return False
    starts = set(map(_start, original.runs))
    runs = [run for run in rerun.runs if _start(run) in starts]
    series = {_series(run.samples): run.samples for run in original.runs} if runs else {}
    return any(
        _tells(run.samples) and _tells(series[_series(run.samples)])
        for run in runs
        if _series(run.samples) in series
    )


def _first_values(metric: MetricRuns) -> set[float]:
    return {run.samples[0].values[0] for run in metric.runs if run.samples}


def _start(run: Run) -> tuple[float, ...]:
    return tuple(run.samples[0].values[:2]) if run.samples else ()


def _is_rounded(value: float) -> bool:
    return float(f"{value:.{_DIGITS}g}") == value


def _is_mostly_copied(original: Sequence[float], rerun: Sequence[float]) -> bool:
    """Return whether one side is a copy of the other, with some values changed.

    Values that come twice on one side are of few possible ones, and may come on both.
    """
    there, here = set(original), set(rerun)
    shared = len(there & here)
    alone = len(there) == len(original) and len(here) == len(rerun)
    return alone and shared >= _FEW and 2 * shared > min(len(there), len(here))


def _clock_readings(record: Record) -> Iterator[tuple[str, str, Sequence[float]]]:
    """Yield the series of clock readings that are long enough to be unique."""
    for line in record.samples:
        if line.wall is not None and _is_telling(line.wall):
            yield line.metric, line.trial, line.wall
        if _is_timed(line) and _is_telling(line.values):
            yield line.metric, line.trial, line.values


def _trial_readings(record: Record) -> Iterator[tuple[str, str, Sequence[float]]]:
    """The same of all times of a trial together, each of which alone is too few."""
    trials: dict[tuple[str, int], list[float]] = {}
    for line in record.samples:
        if len(line.values) < _TELLING and _is_timed(line):
            trials.setdefault((line.trial, line.attempt), []).extend(line.values)
    for (trial, _), times in trials.items():
        if len(set(times)) >= _TELLING:
            yield f"{trial.rpartition('/')[0]}/all its times", trial, times


def _is_telling(readings: Sequence[float]) -> bool:
    return len(set(readings[:_TELLING])) == _TELLING or len(set(readings)) >= _TELLING


def _is_timed(line: Samples) -> bool:
    return line.kind == "machine" and line.unit in _TIMES


def _series(samples: tuple[Samples, ...]) -> tuple[bytes, ...]:
    """All values of a run."""
    return tuple(bits(line.values) for line in samples)


def _tells(samples: tuple[Samples, ...]) -> bool:
    """Return whether a run has enough values to be unique."""
    different = {value for line in samples for value in line.values}
    counted = any(line.resolution > 0 for line in samples)
    return len(different) >= (_TELLING if counted else 2)
