"""Notes on runs whose value is the mean of their last evaluations."""

from __future__ import annotations

from collections.abc import Iterator

from capsule.diff import Pair
from capsule.notes import Note
from capsule.record import Samples
from capsule.summary import MetricRuns, Run
from capsule.verdict import words


def notes(pair: Pair) -> Iterator[Note]:
    """Yield notes on runs with too few evaluations, and on runs that end at different steps."""
    last = pair.claim.pattern.mean_of_last if pair.claim is not None else None
    if last is None:
        return
    sides = {
        name: side
        for name, side in (("original", pair.original), ("re-run", pair.rerun))
        if side is not None
    }
    for name, side in sides.items():
        yield from _short(name, side, last)
    ends = {
        tuple(line.steps[-last:])
        for side in sides.values()
        for run in side.runs
        for line in run.samples
        if run.value is not None and line.steps is not None
    }
    if len(ends) > 1:
        low, high = min(map(min, ends)), max(map(max, ends))
        yield words.notes.unequal_steps(last=last, low=low, high=high)


def _short(name: str, side: MetricRuns, last: int) -> Iterator[Note]:
    # a run that completed, and yet has no value that this claim could judge
    short = [run for run in side.runs if run.value is None and run.samples]
    if short:
        yield words.notes.too_few_evaluations(
            short=len(short),
            runs=len(side.runs),
            side=name,
            last=last,
            seed=short[0].seed,
            evaluations=_count_evaluations(short[0]),
        )


def _count_evaluations(run: Run) -> int | None:
    if any(line.steps is None for line in run.samples):
        return None
    return min(map(_after_warmup, run.samples))


def _after_warmup(samples: Samples) -> int:
    return max(0, len(samples.values) - samples.warmup)
