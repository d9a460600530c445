"""Values of a training computed again from its recipe, seed and clocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from capsule.levels.catalog import training
from capsule.levels.catalog.schedules import Schedule
from capsule.levels.data import predictions, samplers
from capsule.manifest.kinds import Reading, Settings


def fingerprint(
    settings: Settings | Reading, count: int, seed: int, epochs: int, kept: Iterable[bytes]
) -> float:
    """Return the fingerprint of the order in which samples were taken.

    Args:
        settings: How it trains, or reads.
        count: Samples to train on.
        seed: Seed of the trial.
        epochs: Of which the order is reported.
        kept: Pieces of the file of lengths or weights, not looked at for a sampler without.

    Raises:
        ValueError: The file is not of such numbers.
    """
    from capsule import extraction

    sampler, batch, measure = settings.sampler, settings.batch, None
    if training.SAMPLERS[sampler] is not None:
        array = predictions.decode(extraction.take(kept))
        if array.shape != (1, 1, count):
            raise ValueError(f"the array has shape {array.shape}, expected {(1, 1, count)}")
        measure = samplers.check_measure(sampler, array[0, 0], count)
    result = samplers.Fingerprint()
    for epoch in range(epochs):
        order = samplers.order(sampler, count, seed, epoch, batch=batch, measure=measure)
        result.add("order", order[: count // batch * batch])
    return float(result.value())


def schedule(settings: Settings) -> Schedule:
    """Return the learning rates of a training."""
    return Schedule(
        name=settings.schedule,
        numbers=settings.schedule_numbers,
        milestones=settings.milestones,
        peak=settings.numbers["lr"],
        epochs=settings.epochs,
    )


def add_times(times: Sequence[float], pauses: Sequence[float]) -> tuple[float, float]:
    """Return seconds of epochs without and with their evaluations, added as they were there."""
    trained = total = 0.0
    for seconds, pause in zip_longest(times, pauses, fillvalue=0.0):
        trained += seconds
        total += seconds
        total += pause
    return trained, total
