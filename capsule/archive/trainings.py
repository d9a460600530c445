"""Consistency of trainings: final quality and targets with the curves, the ends of curves with the
predictions, the order of samples with the seed, learning rates with the recipe. All are computed
again and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from math import isclose, isfinite, isnan, prod

from capsule.archive import remade
from capsule.levels.catalog import training
from capsule.levels.data import generators, predictions, samplers
from capsule.manifest import Manifest, Recipe
from capsule.manifest.kinds import Settings
from capsule.manifest.sources import OUT
from capsule.record import Attempt, Record, Samples

MOST_ORDERED = 5_000_000
"""Samples of which the order is made again, a second's work."""

MOST_RATES = 1_000_000
"""Steps of which the learning rate is made again, a second's work."""

Series = Mapping[str, Samples]
"""Samples of one attempt, by the name of the metric."""

Load = Callable[[str], Iterable[bytes]]
"""Loader of a file below `data/`, in pieces."""

_ROUNDING = 1e-9
"""Share of a quality that sums in another order may differ by, or a rate by another cosine."""


@dataclass(frozen=True)
class Training:
    """One attempt at a trial of a recipe.

    Attributes:
        trial: Id of the trial.
        attempt: From 1.
        seed: Seed of the trial.
        completed: True if the attempt ended well.
        diverged: True if it is said to have diverged.
        quality: Name of the metric that is the network's quality.
        settings: How it trains.
        made: Samples for training and for testing that the manifest's generator makes; None for
            other data.
        choices: Predictions of one sample that are judged.
        resumed_after: Epochs that earlier attempts trained, 0 for none.
        earlier: What the attempt before this one reported.
        series: What was reported.
        predictions: Path below `data/` of what its last evaluations chose, None where not kept.
        measure: Likewise of what its sampler went by.
    """

    trial: str
    attempt: int
    seed: int
    completed: bool
    diverged: bool
    quality: str
    settings: Settings
    made: tuple[int, int] | None
    choices: int
    resumed_after: int
    earlier: Series
    series: Series
    predictions: str | None
    measure: str | None

    @property
    def where(self) -> str:
        """Return the name of the attempt in messages."""
        return f"{self.trial}, attempt {self.attempt}"


def read(
    manifest: Manifest, attempts: Iterable[Attempt], samples: Iterable[Samples]
) -> Iterator[Training]:
    """Yield every attempt at a training that has samples, but those that failed for what they
    told.
    """
    recipes = {
        one.id: (one, one.subject) for one in manifest.benchmarks if isinstance(one.subject, Recipe)
    }
    by_try = {(one.trial, one.attempt): one for one in attempts if one.reason != "bad-result"}
    series: dict[tuple[str, int], dict[str, Samples]] = {}
    for line in samples:
        key = line.trial, line.attempt  # of several ranks the first one tells how the training went
        if not line.rank and key in by_try and line.metric.partition("/")[0] in recipes:
            series.setdefault(key, {})[line.metric.rpartition("/")[2]] = line
    made = {one.name: one for one in manifest.datasets}
    for (trial, number), lines in series.items():
        attempt = by_try[trial, number]
        name, case, *_ = trial.split("/")
        benchmark, recipe = recipes[name]
        data = made[benchmark.datasets[0]]
        counts = None
        if data.generator is not None:
            numbers = generators.complete(data.generator, data.parameters)
            counts = numbers["samples"], numbers.get("test_samples", 0)
        settings = recipe.settings[case]
        yield Training(
            trial=trial,
            attempt=number,
            seed=attempt.seed,
            completed=attempt.outcome == "completed",
            diverged=attempt.reason == "diverged",
            quality=recipe.quality,
            settings=settings,
            made=counts,
            choices=recipe.choices(case),
            resumed_after=attempt.resumed_after or 0,
            earlier=series.get((trial, number - 1), {}),
            series=lines,
            predictions=_find(attempt, predictions.path),
            measure=_find(attempt, samplers.path),
        )


def _find(attempt: Attempt, path: Callable[[str, str], str]) -> str | None:
    benchmark, case, *_ = attempt.trial.split("/")
    name = OUT + path(benchmark, case)
    return next((one.path for one in attempt.evidence if one.name == name), None)


def judge(trainings: Iterable[Training], load: Load) -> Iterator[tuple[Training, str]]:
    """Yield contradictions between a training's values and its predictions, curves and seed."""
    budget, rates = MOST_ORDERED, MOST_RATES
    for one in trainings:
        budget -= _order_cost(one)
        rates -= _rate_cost(one)
        for fault in chain(
            _curve_faults(one),
            _divergence_faults(one),
            _class_faults(one),
            _time_faults(one),
            _resumption_faults(one),
            _target_faults(one),
            _count_faults(one),
            _prediction_faults(one, load),
            _order_faults(one, load) if budget >= 0 else (),
            _rate_faults(one) if rates >= 0 else (),
        ):
            yield one, f"{one.where}: {fault}"


def faults(record: Record, load: Load) -> Iterator[str]:
    """Yield contradictions in a record's trainings, as sentences."""
    for _, fault in judge(read(record.manifest, record.attempts, record.samples), load):
        yield fault


def fact(record: Record) -> str:
    """Return the fact established by reading a record without faults."""
    trainings = list(read(record.manifest, record.attempts, record.samples))
    costs = accumulate(map(_order_cost, trainings))
    ordered = sum(
        cost <= MOST_ORDERED and _has_order(one) for one, cost in zip(trainings, costs, strict=True)
    )
    judged = sum(one.predictions is not None for one in trainings)
    rated = sum(cost <= MOST_RATES for cost in accumulate(map(_rate_cost, trainings)))
    return (
        f"trainings whose values match a second computation: final values {len(trainings)}, last"
        f" quality {judged}, order of samples {ordered}, learning rate {rated}"
    )


def _curve_faults(one: Training) -> Iterator[str]:
    curve = one.series.get(one.quality)
    if curve is None:
        return
    values, steps = curve.values, curve.steps or ()
    if list(steps) != list(range(1, len(values) + 1)):
        shown = ", ".join(f"{step:g}" for step in steps[:10])
        yield f"{one.quality} has the epochs {shown or 'none'}, expected 1 to {len(values)}"
    target = one.settings.target
    if one.completed and not (target and target.stop) and len(values) != one.settings.epochs:
        yield f"completed with {len(values)} of {one.settings.epochs} epochs"
    last = values[-training.LAST :]
    yield from _differs(one, f"final_{one.quality}", sum(last) / len(last))
    best = min(values) if training.is_error(one.quality) else max(values)
    yield from _differs(one, f"best_{one.quality}", best)


def _resumption_faults(one: Training) -> Iterator[str]:
    """Yield contradictions between a resumed attempt and the attempt before it."""
    if not one.resumed_after:
        return
    for name in ("train_loss", "loss", one.quality):
        line, before = one.series.get(name), one.earlier.get(name)
        if line is None:
            continue
        if len(line.values) < one.resumed_after:
            yield (
                f"{name} has {len(line.values)} epochs, expected at least the {one.resumed_after}"
                " of earlier attempts"
            )
        # a machine that went down may have lost the last points before it
        taken = zip(line.values, before.values if before else (), strict=False)
        for epoch, (value, other) in enumerate(islice(taken, one.resumed_after), 1):
            if value != other and not (isnan(value) and isnan(other)):
                yield (
                    f"{name} of epoch {epoch} is {value:.17g}, expected {other:.17g} as in the"
                    " earlier attempt"
                )
                break
    times, curve = one.series.get("epoch_time"), one.series.get(one.quality)
    if times and curve and len(times.values) != len(curve.values) - one.resumed_after:
        own = len(curve.values) - one.resumed_after
        yield f"epoch_time has {len(times.values)} epochs, expected the {own} of this attempt"


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
            success = "completed" if one.completed else "reports epochs_to_target"
            yield (
                f"no epoch reached the target {target.value:g} of {one.quality}, but the attempt"
                f" {success}"
            )
        return
    if target.stop and len(curve.values) != reached:
        yield f"the training continued after reaching its target in epoch {reached}"
    yield from _differs(one, "epochs_to_target", float(reached))
    total = _number(one, "training_samples")
    if total is not None:
        batch = one.settings.batch
        yield from _differs(one, "samples_to_target", float(reached * (total // batch * batch)))
    if "epoch_time" not in one.series:
        return
    seconds, with_evaluation = _add_times(one, reached)
    yield from _differs(one, "time_to_target", seconds)
    yield from _differs(one, "total_time_to_target", with_evaluation)


def _divergence_faults(one: Training) -> Iterator[str]:
    curve, untrained = one.series.get("train_loss"), one.series.get("untrained_loss")
    if curve is None or untrained is None or len(untrained.values) != 1:
        return
    first, epochs = untrained.values[0], one.settings.epochs
    left = next(
        (
            epoch
            for epoch, loss in enumerate(curve.values, 1)
            if training.diverges(epoch, epochs, loss, first, one.quality)
        ),
        None,
    )
    if left is not None and (one.completed or left < len(curve.values)):
        end = "completed" if one.completed else f"continued to epoch {len(curve.values)}"
        yield f"train_loss diverged in epoch {left}, but the attempt {end}"
    judged = one.series.get("loss")
    if one.diverged and left is None and (judged is None or all(map(isfinite, judged.values))):
        yield (
            "recorded as diverged, expected a divergence of train_loss or loss in epochs 1 to"
            f" {len(curve.values)}, found none"
        )


def _class_faults(one: Training) -> Iterator[str]:
    counts, total = one.series.get("class_counts"), _number(one, "training_samples")
    if counts is None:
        return
    whole = sum(counts.values)
    if whole <= 0 or not all(count >= 0 and count % 1 == 0 for count in counts.values):
        found = ", ".join(f"{count:g}" for count in counts.values[:10])
        yield f"class_counts are {found}, expected whole numbers of at least 0, with a sum above 0"
        return
    yield from _differs(one, "largest_class_share", max(counts.values) / whole)
    batch = one.settings.batch
    if total is not None and one.quality in training.CLASSIFIES:
        due = total // batch * batch * one.choices
        if whole != due:
            yield f"class_counts sum up to {whole:g}, expected {due} labels"


def _time_faults(one: Training) -> Iterator[str]:
    times = one.series.get("epoch_time")
    if times is None:
        return
    trained, total = _add_times(one, len(times.values))
    yield from _differs(one, "train_time", trained)
    yield from _differs(one, "total_time", total)


def _add_times(one: Training, epochs: int) -> tuple[float, float]:
    times, evaluated = one.series.get("epoch_time"), one.series.get("evaluation_time")
    return remade.add_times(
        times.values[:epochs] if times else (), evaluated.values[:epochs] if evaluated else ()
    )


def _count_faults(one: Training) -> Iterator[str]:
    if one.made is not None:
        how = "follows from its generator"
        yield from _differs(one, "training_samples", float(one.made[0]), how)


def _prediction_faults(one: Training, load: Load) -> Iterator[str]:
    from capsule import extraction

    curve = one.series.get(one.quality)
    if curve is None:
        return
    last = curve.values[-training.LAST :]
    shape = (1 + len(last), one.made[1], one.choices) if one.made else None
    if one.predictions is None:
        if one.completed and shape and prod(shape) <= predictions.MOST_VALUES:
            yield "completed, but its predictions are missing"
        return
    try:
        array = predictions.decode(extraction.take(load(one.predictions)))
        due = predictions.qualities(one.quality, array)
    except ValueError as error:
        yield f"{one.predictions}: {error}"
        return
    if array.shape != (shape or (1 + len(last), array.shape[1], one.choices)):
        due_shape = shape or (1 + len(last), array.shape[1], one.choices)
        yield f"{one.predictions} has shape {array.shape}, expected {due_shape}"
    for value, other in zip(last, due, strict=False):
        # sums over batches and over all are rounded otherwise
        if not isclose(value, other, rel_tol=_ROUNDING):
            yield f"{one.quality} is {value:.9g}, expected {other:.9g} from its predictions"


def _order_faults(one: Training, load: Load) -> Iterator[str]:
    total = _number(one, "training_samples")
    if total is None or not _has_order(one):
        if total and one.completed and total <= predictions.MOST_VALUES:
            yield f"the file of its {one.settings.sampler} sampler is missing"
        return
    try:
        kept = load(one.measure) if one.measure else ()
        due = remade.fingerprint(one.settings, total, one.seed, _epochs(one), kept)
    except ValueError as error:
        yield f"{one.measure}: {error}"
        return
    yield from _differs(one, "order_fingerprint", due, "follows from its seed")


def _has_order(one: Training) -> bool:
    """Return whether its order follows from what the capsule has."""
    return training.SAMPLERS[one.settings.sampler] is None or one.measure is not None


def _order_cost(one: Training) -> int:
    """Return samples whose order has to be made again."""
    return (_number(one, "training_samples") or 0) * _epochs(one)


def _rate_faults(one: Training) -> Iterator[str]:
    curve, steps, settings = one.series.get("learning_rate"), _steps(one), one.settings
    if curve is None or not steps:
        return
    schedule = remade.schedule(settings)
    quality = one.series.get(one.quality)
    if one.completed and quality and len(quality.values) != len(curve.values):
        yield (
            f"learning_rate has {len(curve.values)} epochs, expected {len(quality.values)} as in"
            f" {one.quality}"
        )
    for epoch, (place, value) in enumerate(zip(curve.steps or (), curve.values, strict=True), 1):
        due = schedule.mean(epoch, steps)
        if place != epoch or not isclose(value, due, rel_tol=_ROUNDING):
            yield (
                f"learning_rate is {value:.9g} in epoch {place:g}, expected {due:.9g} in epoch"
                f" {epoch} from the schedule"
            )
            return


def _rate_cost(one: Training) -> int:
    """Return steps whose learning rate has to be made again."""
    curve = one.series.get("learning_rate")
    return len(curve.values) * _steps(one) if curve else 0


def _steps(one: Training) -> int:
    """Return the number of steps of an epoch."""
    return (_number(one, "training_samples") or 0) // one.settings.batch


def _epochs(one: Training) -> int:
    curve = one.series.get("train_loss")
    return min(training.ORDERED_EPOCHS, len(curve.values) if curve else 0)


def _differs(
    one: Training, metric: str, due: float, how: str = "follows from its curve"
) -> Iterator[str]:
    line = one.series.get(metric)
    if line is not None and not _are(line.values, due):
        yield f"{metric} is {line.values[0]:.17g}; {due:.17g} {how}"


def _are(values: Sequence[float], due: float) -> bool:
    """Return whether it is this one value."""
    return len(values) == 1 and (values[0] == due or all(map(isnan, (due, values[0]))))


def _number(one: Training, metric: str) -> int | None:
    """Return a value that counts something; None where it was not told, or does not."""
    line = one.series.get(metric)
    if line is None or len(line.values) != 1 or not 0 < line.values[0] < 2**53:
        return None
    return int(line.values[0])
