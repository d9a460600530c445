"""One Level 2 trial: train a network by a recipe, and say how good it got, and how fast.

Convergence and speed are apart: curves have the epoch as their step, and clocks with and without
evaluation; `epoch_time` is that of the training alone, waiting for data included. A training that
diverges ends there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any, Callable

from .. import catalog, networks
from ..catalog import training
from ..data import predictions, samplers
from ..frameworks import Framework
from ..frameworks.base import Trainer
from ..graphs import statistics, values
from ..graphs.graph import Graph
from ..instruments import capacity, memory
from ..job import Trial
from ..report import DivergedError, Report
from . import checks, modules, trajectory
from .account import WATCHED, Account, Epoch
from .prepared import Prepared
from .samples import read


class TargetError(Exception):
    """A training ended without the quality that it was to reach."""


@dataclass
class _Progress:
    """What is known of a training that is under way."""

    account: Account
    order: samplers.Fingerprint = field(default_factory=samplers.Fingerprint)
    """Of the numbers of the samples, as they were taken in the first epochs."""
    test: samplers.Fingerprint = field(default_factory=samplers.Fingerprint)
    """Of what the first evaluation was made with."""
    evaluations: deque[predictions.Evaluation] = field(
        default_factory=lambda: deque(maxlen=training.LAST)
    )
    """The last ones."""
    reached: int | None = None
    """Epoch at which the target was first met."""
    untrained: float | None = None
    """Loss of the first step."""


def measure(trial: Trial, framework: Framework, report: Report) -> None:
    """Train, and report the metrics of `catalog.training.metrics` as soon as each is known.

    Args:
        trial: One with a recipe, and one dataset.
        framework: Where it runs.
        report: Where the values go.

    Raises:
        DivergedError: Its loss is not finite, or has grown.
        MemoryError: It would not fit.
        TargetError: The recipe's target was not reached.
        ValueError: The framework cannot train the network, or the dataset is another one's.
        ModuleNotFoundError: The dataset's format needs a package that is not installed.
    """
    recipe, dtype, seed = trial.recipe, trial.dtype, trial.context.seed
    if recipe is None or len(trial.datasets) != 1:
        raise ValueError("a training has a recipe and one dataset")
    source = Path(trial.source) if trial.source else None
    if reason := training.refusal(framework.name, is_module=source is not None):
        raise ValueError(reason)
    graph, quality = modules.describe(source) if source else _find_graph(trial)
    (dataset,), context = trial.datasets, trial.context
    train, test = read(context.data[dataset], graph(1), context.formats.get(dataset))
    steps = train.count // recipe.batch
    if not steps:
        raise ValueError(f"a batch of {recipe.batch} is more than the {train.count} samples")
    judged = min(recipe.batch, trajectory.MOST_SAMPLES)
    if source is None:
        capacity.network_fits(graph(recipe.batch), graph(judged), dtype, framework, trains=True)
    prepared = Prepared(
        framework=framework,
        report=report,
        graph=graph,
        evaluation=graph if source else cache(lambda batch: statistics.evaluation(graph(batch))),
        recipe=recipe,
        dtype=dtype,
        device=context.device,
        seed=seed,
        parameters=values.parameters(graph(1), dtype, seed),
        train=train,
        test=test,
        quality=quality,
        steps=steps,
        kept=predictions.path(trial.benchmark, trial.case),
        source=source,
    )
    with report.pause():
        if source is None:
            checks.hold_to_reference(prepared, judged)
        else:
            checks.hold_to_formulas(prepared, source)
    with framework.arithmetic(dtype):
        _train(prepared)


def _find_graph(trial: Trial) -> tuple[Callable[[int], Graph], str]:
    """A network of the catalogue for any batch, and its quality."""
    sizes = networks.find(trial.subject).complete({**trial.parameters, "batch": 1})

    @cache
    def graph(batch: int) -> Graph:
        return networks.build(trial.subject, {**sizes, "batch": batch})

    return graph, training.QUALITY[trial.subject]


def _train(trial: Prepared) -> None:
    report, recipe = trial.report, trial.recipe
    progress = _Progress(Account(report))
    watch = memory.watch(trial.framework)
    watch.reset_peak()
    trainer = trial.start(trial.graph(recipe.batch))
    if trial.source is not None:
        value = modules.fingerprint(trial.fetch(trainer.parameters()))
        report.samples("initial_fingerprint", [value])
    qualities = []
    for epoch in range(1, recipe.epochs + 1):
        result = _epoch(trial, trainer, epoch)
        _follow(trial, progress, epoch, result)
        with report.pause():
            began = perf_counter()
            test_loss, quality = _evaluate(trial, trainer, progress, first=epoch == 1)
            evaluated = perf_counter() - began
        report.point("loss", epoch, test_loss)
        report.point(trial.quality, epoch, quality)
        progress.account.add(result, evaluated)
        if not isfinite(test_loss):
            raise DivergedError(f"the loss on test data is {test_loss} after epoch {epoch}")
        qualities.append(quality)
        if recipe.target and not progress.reached and _meets(trial, quality):
            progress.reached = epoch
            progress.account.reach()
            if recipe.target.stop:
                break
    if catalog.reports_memory(trial.framework.name, trial.device):
        report.samples("peak_memory_bytes", [watch.peak()])
    _conclude(trial, progress, qualities, trial.fetch(trainer.parameters()))


def _follow(trial: Prepared, progress: _Progress, epoch: int, result: Epoch) -> None:
    """Report what an epoch's steps were, and end the training where they have diverged."""
    report = trial.report
    if progress.untrained is None:
        progress.untrained = result.first_loss
        report.samples("untrained_loss", [result.first_loss])
    report.point("train_loss", epoch, result.loss)
    if training.diverges(epoch, trial.recipe.epochs, result.loss, progress.untrained):
        raise DivergedError(
            f"the loss is {result.loss:.6g} in epoch {epoch}, and was {progress.untrained:.6g}"
            " before the first step"
        )
    if epoch <= training.ORDERED_EPOCHS:
        progress.order.add("order", result.taken)
    if epoch == 1 and trial.quality in training.CLASSIFIES:
        with report.pause():
            below = trial.graph(1).inputs["label"].below or 0
            counts = trial.train.count_classes("label", below, result.taken)
        report.samples("class_counts", counts)
        report.samples("largest_class_share", [max(counts) / sum(counts)])


def _conclude(
    trial: Prepared,
    progress: _Progress,
    qualities: Sequence[float],
    parameters: Mapping[str, Any],
) -> None:
    """Report what a whole training comes to.

    Raises:
        TargetError: It was to reach a quality and has not.
    """
    report, target = trial.report, trial.recipe.target
    best = min(qualities) if training.is_error(trial.quality) else max(qualities)
    if not (target and target.stop):
        last = qualities[-training.LAST :]
        report.samples(f"final_{trial.quality}", [sum(last) / len(last)])
        report.samples(f"best_{trial.quality}", [best])
    chosen = predictions.encode(progress.evaluations)
    if chosen is not None:
        report.keep(trial.kept, chosen)
    trained = trial.graph(1).trainable or parameters
    report.samples("training_samples", [trial.train.count])
    report.samples("order_fingerprint", [progress.order.value()])
    report.samples("test_fingerprint", [progress.test.value()])
    report.samples("parameters", [sum(parameters[name].size for name in trained)])
    progress.account.conclude()
    if target:
        if progress.reached is None:
            raise TargetError(
                f"{trial.quality} {target.value:g} was not reached in {trial.recipe.epochs}"
                f" epochs; the best was {best:.6g}"
            )
        report.samples("epochs_to_target", [progress.reached])
        report.samples("samples_to_target", [progress.reached * trial.steps * trial.recipe.batch])


def _epoch(trial: Prepared, trainer: Trainer, epoch: int) -> Epoch:
    """Train on every whole batch once, or until a loss is not finite."""
    import numpy

    losses, waited, taken, size = [], 0.0, [], 0
    batch, framework = trial.recipe.batch, trial.framework
    began = perf_counter()
    order = samplers.shuffle(trial.train.count, trial.seed, epoch - 1)
    for step in range(trial.steps):
        wait_began = perf_counter()
        indices = order[step * batch : (step + 1) * batch]
        arrays = trial.train.take(indices)
        inputs = trial.place(arrays)
        taken.append(indices)
        waited += perf_counter() - wait_began
        size += sum(array.nbytes for array in arrays.values())
        losses.append(trainer.step(inputs, trial.rate((epoch - 1) * trial.steps + step)))
        if step % WATCHED == 0 and not isfinite(float(framework.to_numpy(losses[-1]))):
            break
    if framework.synchronize:
        framework.synchronize()
    seconds = perf_counter() - began
    lost = [float(framework.to_numpy(loss)) for loss in losses]
    return Epoch(
        loss=sum(lost) / len(lost),
        first_loss=lost[0],
        steps=len(lost),
        samples=batch * len(lost),
        seconds=seconds,
        waited=waited,
        size=size,
        taken=numpy.concatenate(taken),
    )


def _evaluate(
    trial: Prepared, trainer: Trainer, progress: _Progress, *, first: bool
) -> tuple[float, float]:
    """Loss and quality over all test data; a rest that fills no batch counts as what it is."""
    evaluation = predictions.Evaluation(trial.quality)
    progress.evaluations.append(evaluation)
    total = 0.0
    for indices in _batches(trial.test.count, trial.recipe.batch):
        inputs = trial.test.take(indices)
        *outputs, loss = trainer.evaluate(trial.evaluation(len(indices)), trial.place(inputs))
        total += float(trial.framework.to_numpy(loss)) * len(indices)
        evaluation.add(trial.framework.to_numpy(outputs[0]), inputs, len(indices))
        if first:
            for name, array in inputs.items():
                progress.test.add(name, array)
    return total / trial.test.count, evaluation.value()


def _batches(count: int, batch: int) -> Iterator[Any]:
    import numpy

    for start in range(0, count, batch):
        yield numpy.arange(start, min(start + batch, count))


def _meets(trial: Prepared, quality: float) -> bool:
    target = trial.recipe.target
    assert target is not None
    return quality <= target.value if training.is_error(trial.quality) else quality >= target.value
