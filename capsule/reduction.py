"""One number out of the raw samples of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from capsule.averages import FEW, VERY_FEW, finite, mean, median, medians
from capsule.manifest import Aggregate, Direction
from capsule.record import RankSamples, Samples

# values of different things, not repetitions
_WORST_OF = ("node", "block")
# so many short series are copied at a time
_TOGETHER = 128


def run_value(
    samples: Sequence[Samples], few: int = FEW, aggregate: Aggregate | None = None
) -> float | None:
    """Return one number for a run, None when there is none or a value is not finite.

    Repeated calls have the median of the values after warm-up, where an even number of values has
    the mean of the two middle ones. A curve has its last value. Values of nodes and blocks are
    different things, not repetitions, and have the worst one by the metric's direction (the
    largest one where lower is better, or nothing is); so have ranks, each with its own number.
    Where an author has chosen an aggregate, it takes the place of all of these.

    Args:
        samples: All values, one for each rank that reported the metric.
        few: Of how many values numpy need not find the median.
        aggregate: What the author has chosen, None for nothing.
    """
    if len(samples) == 1:
        return _rank_value(samples[0], few, aggregate)
    values = [_rank_value(one, few, aggregate) for one in samples]
    numbers = [number for number in values if number is not None]
    if not numbers or len(numbers) < len(values):
        return None
    if aggregate is not None:
        return _aggregate(numbers, few, aggregate)
    return worst(numbers, samples[0].direction)


def _aggregate(values: Sequence[float], few: int, aggregate: Aggregate) -> float | None:
    if aggregate == "median":
        return median(values, few)
    if not values or not finite(values):
        return None
    if aggregate == "mean":
        return mean(values)
    return min(values) if aggregate == "min" else max(values)


def _rank_value(samples: Samples, few: int, aggregate: Aggregate | None) -> float | None:
    values = samples.values[samples.warmup :]
    if isinstance(samples, RankSamples):
        return worst(values, samples.direction) if finite(values) else None
    if aggregate is not None:
        return _aggregate(values, few, aggregate)
    if samples.steps is not None:
        return median(values[-1:], few)
    if samples.per in _WORST_OF:
        return worst(values, samples.direction) if values and finite(values) else None
    return median(values, few)


def mean_of_last(samples: Samples, k: int) -> float | None:
    """Return the mean of the last `k` values of a curve, None where it has fewer, or is none."""
    values = samples.values[samples.warmup :]
    if samples.steps is None or len(values) < k:
        return None
    return mean(values[-k:])


def worst(values: Sequence[float], direction: Direction) -> float:
    """Return the one that is farthest from where a metric is to go; the largest where that is
    nowhere.
    """
    return min(values) if direction == "higher" else max(values)


def run_values_of(
    runs: Sequence[tuple[Samples, ...]], few: int = FEW, aggregate: Aggregate | None = None
) -> Iterator[float | None]:
    """`run_value` of each run; of many that repeat a few calls of several at once."""
    if aggregate is not None:
        yield from (run_value(samples, few, aggregate) for samples in runs)
        return
    for start in range(0, len(runs), _TOGETHER):
        part = runs[start : start + _TOGETHER]
        if all(len(samples) == 1 and _repeats_few_calls(samples[0]) for samples in part):
            yield from medians([line.values[line.warmup :] for (line,) in part])
        else:
            yield from [run_value(samples, few) for samples in part]


def _repeats_few_calls(line: Samples) -> bool:
    is_repeated = line.steps is None and line.per not in _WORST_OF
    return is_repeated and len(line.values) <= VERY_FEW and not isinstance(line, RankSamples)


def first_not_finite(samples: tuple[Samples, ...]) -> float | None:
    """Return the first NaN or infinity among all values."""
    values = (value for line in samples for value in line.values)
    return next((value for value in values if not math.isfinite(value)), None)
