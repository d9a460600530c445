"""What a training's samples say of themselves: final quality and targets from the curves they end,
the order of samples from the seed. Made again, and compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import isnan

from capsule.levels.catalog import training
from capsule.levels.data import generators, samplers
from capsule.manifest import Recipe
from capsule.manifest.kinds import Settings
from capsule.record import Record, Samples

MOST_ORDERED = 5_000_000
"""Samples of which the order is made again, a second's work."""

Series = Mapping[str, Samples]
"""Of one attempt, by the name of the metric."""


@dataclass(frozen=True)
class Training:
    """One attempt at a trial of a recipe, as one rank told it.

    Attributes:
        where: For messages.
        seed: Of the trial.
        completed: Whether the attempt ended well.
        quality: Name of the metric that is the network's quality.
        settings: How it trains.
        made: Samples for training that the manifest's generator makes; None for other data.
        series: What was reported.
    """

    where: str
    seed: int
    completed: bool
    quality: str
    settings: Settings
    made: int | None
    series: Series


def read(record: Record) -> Iterator[Training]:
    """Every attempt at a training that has samples."""
    recipes = {
        one.id: (one, one.subject)
        for one in record.manifest.benchmarks
        if isinstance(one.subject, Recipe)
    }
    if not recipes:
        return
    series: dict[tuple[str, int, int], dict[str, Samples]] = {}
    for line in record.samples:
        if line.metric.partition("/")[0] in recipes:
            key = line.trial, line.attempt, line.rank
            series.setdefault(key, {})[line.metric.rpartition("/")[2]] = line
    completed = {(one.trial, one.attempt) for one in record.attempts if one.outcome == "completed"}
    made = {one.name: one for one in record.manifest.datasets}
    for (trial, attempt, _), lines in series.items():
        name, case, *_ = trial.split("/")
        benchmark, recipe = recipes[name]
        data = made[benchmark.datasets[0]]
        count = None
        if data.generator is not None:
            count = generators.complete(data.generator, data.parameters)["samples"]
        yield Training(
            where=f"{trial}, attempt {attempt}",
            seed=next(iter(lines.values())).seed,
            completed=(trial, attempt) in completed,
            quality=training.QUALITY[recipe.name],
            settings=recipe.settings[case],
            made=count,
            series=lines,
        )


def faults(record: Record) -> Iterator[str]:
    """Where what is told of a training is not what its own curves and its seed give."""
    budget = MOST_ORDERED
    for one in read(record):
        yield from _curve_faults(one)
        yield from _target_faults(one)
        yield from _count_faults(one)
        budget -= _order_cost(one)
        if budget >= 0:
            yield from _order_faults(one)


def count(record: Record) -> int:
    """Of how many trainings the order of samples was made again."""
    costs = accumulate(map(_order_cost, read(record)))
    return sum(cost <= MOST_ORDERED for cost in costs)


def _curve_faults(one: Training) -> Iterator[str]:
    curve = one.series.get(one.quality)
    if curve is None:
        return
    values, steps = curve.values, curve.steps or ()
    if list(steps) != list(range(1, len(values) + 1)):
        yield f"{one.where}: {one.quality} is not there for every epoch from the first"
    target = one.settings.target
    if one.completed and not (target and target.stop) and len(values) != one.settings.epochs:
        yield f"{one.where} completed with {len(values)} of {one.settings.epochs} epochs"
    last = values[-training.LAST :]
    yield from _differs(one, f"final_{one.quality}", sum(last) / len(last))
    best = min(values) if training.is_error(one.quality) else max(values)
    yield from _differs(one, f"best_{one.quality}", best)


def _target_faults(one: Training) -> Iterator[str]:
    target, curve = one.settings.target, one.series.get(one.quality)
    if target is None or curve is None:
        return
    lower = training.is_error(one.quality)
    reached = next(
        (
            epoch
            for epoch, value in enumerate(curve.values, 1)
            if (value <= target.value if lower else value >= target.value)
        ),
        None,
    )
    if reached is None:
        if one.completed or "epochs_to_target" in one.series:
            yield f"{one.where} has not reached its target, and is not said to have failed for it"
        return
    if target.stop and len(curve.values) != reached:
        yield f"{one.where} went on behind its target"
    yield from _differs(one, "epochs_to_target", float(reached))
    total = _number(one, "training_samples")
    if total is not None:
        batch = one.settings.batch
        yield from _differs(one, "samples_to_target", float(reached * (total // batch * batch)))
    times = one.series.get("epoch_time")
    if times is not None and len(times.values) == len(curve.values):
        seconds = 0.0
        for part in times.values[:reached]:
            seconds += part
        yield from _differs(one, "time_to_target", seconds)


def _count_faults(one: Training) -> Iterator[str]:
    if one.made is not None:
        how = "is what its generator makes"
        yield from _differs(one, "training_samples", float(one.made), how)


def _order_faults(one: Training) -> Iterator[str]:
    total = _number(one, "training_samples")
    if total is None:
        return
    used = total // one.settings.batch * one.settings.batch
    fingerprint = samplers.Fingerprint()
    for epoch in range(_epochs(one)):
        fingerprint.add("order", samplers.shuffle(total, one.seed, epoch)[:used])
    yield from _differs(
        one, "order_fingerprint", float(fingerprint.value()), "follows from its seed"
    )


def _order_cost(one: Training) -> int:
    """Samples whose order has to be made again."""
    return (_number(one, "training_samples") or 0) * _epochs(one)


def _epochs(one: Training) -> int:
    curve = one.series.get("train_loss")
    return min(training.ORDERED_EPOCHS, len(curve.values) if curve else 0)


def _differs(
    one: Training, metric: str, due: float, how: str = "follows from its curve"
) -> Iterator[str]:
    line = one.series.get(metric)
    if line is not None and not _are(line.values, due):
        yield f"{one.where}: {metric} is {line.values[0]:.17g}, and {due:.17g} {how}"


def _are(values: Sequence[float], due: float) -> bool:
    """Whether it is this one value."""
    return len(values) == 1 and (values[0] == due or all(map(isnan, (due, values[0]))))


def _number(one: Training, metric: str) -> int | None:
    """A value that counts something; None where it was not told, or does not."""
    line = one.series.get(metric)
    if line is None or len(line.values) != 1 or not 0 < line.values[0] < 2**53:
        return None
    return int(line.values[0])
