"""One Level 2 trial: train a network by a recipe, and say how good it got, and how fast.

Convergence and speed are apart: curves have the epoch as their step, and clocks with and without
evaluation; `epoch_time` is that of the training alone, waiting for data included. A training that
diverges ends there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from hashlib import sha256
from math import fsum, isfinite
from pathlib import Path
from time import perf_counter
from typing import Any, Callable

from .. import catalog, networks
from ..catalog import training
from ..data import predictions, samplers
from ..frameworks import Framework
from ..frameworks.base import Trainer
from ..graphs import statistics, values
from ..graphs.fingerprint import fingerprint as network_fingerprint
from ..graphs.graph import Graph
from ..instruments import doubles, memory, tensor_cores
from ..instruments.doubles import Bring
from ..instruments.spans import SPANS
from ..job import Trial
from ..report import DivergedError, Report
from . import ahead, checks, contract, feeding, modules, reading, results, resuming
from .account import WATCHED, Account, Epoch
from .prepared import Prepared
from .progress import Progress, Resumed, report_classes
from .samples import Samples, batches, make_order, read
from .team import Team


class TargetError(Exception):
    """A training ended without the quality that it was to reach."""


def measure(trial: Trial, framework: Framework, report: Report) -> None:
    """Train by a recipe, or read a dataset alone.

    Args:
        trial: One with a recipe and one dataset, or with a reading.
        framework: Where it trains.
        report: Where the values go.

    Raises:
        DivergedError: Its loss is not finite, or has grown.
        MemoryError: It would not fit.
        TargetError: The recipe's target was not reached.
        CacheError: See `reading.measure`.
        ValueError: The framework cannot train the network, or the dataset is another one's.
        ModuleNotFoundError: The dataset's format needs a package that is not installed.
    """
    if trial.reading is not None:
        reading.measure(trial, report)
    else:
        train(trial, framework, report, Team())


def train(trial: Trial, framework: Framework, report: Report, team: Team) -> None:
    """Report the metrics of `catalog.training.metrics` as soon as each is known; see `measure`."""
    recipe, dtype, seed = trial.recipe, trial.dtype, trial.context.seed
    if recipe is None or len(trial.datasets) != 1:
        found = "no recipe" if recipe is None else f"{len(trial.datasets)} datasets"
        raise ValueError(f"a training needs a recipe and one dataset, found {found}")
    source = Path(trial.source) if trial.source else None
    optimizer = contract.choose(trial, recipe, framework.name)
    dtype = "float32" if dtype == training.MIXED else dtype
    graph, quality = modules.describe(source) if source else _find_graph(trial)
    (dataset,), context = trial.datasets, trial.context
    train, test = read(context.data[dataset], graph(1), context.formats.get(dataset))
    steps = train.count // recipe.batch
    if not steps:
        raise ValueError(f"a batch of {recipe.batch} exceeds the {train.count} training samples")
    judged, parts = checks.choose_parts(recipe, graph(1))
    bring: Bring = doubles.keep
    if source is None:
        bring = checks.choose_place(recipe, graph, trial.dtype, framework, team)
    prepared = Prepared(
        framework=framework,
        report=report,
        graph=graph,
        evaluation=graph if source else cache(lambda batch: statistics.evaluation(graph(batch))),
        recipe=recipe,
        optimizer=optimizer,
        dtype=dtype,
        device=context.device,
        mixed=trial.dtype == training.MIXED,
        seed=seed,
        parameters=values.parameters(graph(1), dtype, seed),
        train=train,
        test=test,
        order=make_order(trial, recipe, context.data[dataset], train.count, report),
        quality=quality,
        steps=steps,
        kept=predictions.path(trial.benchmark, trial.case),
        source=source,
        identity=_identity(trial, train, test),
        checkpoints=resuming.places(trial, recipe, report, team),
        team=team,
    )
    with framework.arithmetic(dtype):
        resumed = resuming.find(prepared)
    with report.pause():
        if source is not None:
            checks.hold_to_formulas(prepared, source)
        elif not team.rank:
            # the others would find the same, on cores that they may share
            checks.hold_to_reference(prepared, judged, parts, bring)
        team.hold(prepared)
    report.remark = doubles.describe(f"{trial.subject} {trial.case} in {trial.dtype}", bring)
    with framework.arithmetic(dtype):
        _train(prepared, resumed)
    for place in prepared.checkpoints:
        place.unlink(missing_ok=True)


def _find_graph(trial: Trial) -> tuple[Callable[[int], Graph], str]:
    """Return a network of the catalogue for any batch, and its quality."""
    sizes = networks.find(trial.subject).complete({**trial.parameters, "batch": 1})

    @cache
    def graph(batch: int) -> Graph:
        return networks.build(trial.subject, {**sizes, "batch": batch})

    return graph, training.QUALITY[trial.subject]


def _identity(trial: Trial, train: Samples, test: Samples) -> str:
    context, recipe = trial.context, trial.recipe
    if recipe and recipe.has_own_optimizer:
        # wherever the file lies
        recipe = replace(recipe, optimizer=sha256(Path(recipe.optimizer).read_bytes()).hexdigest())
    return repr(
        (
            *(trial.id, context.seed, context.framework, context.determinism, context.device),
            *(
                context.threads,
                context.rank,
                context.ranks,
                trial.subject,
                trial.dtype,
                sorted(trial.parameters.items()),
            ),
            *(recipe, train.count, test.count),
        )
    )


@SPANS.measured
def _train(trial: Prepared, resumed: Resumed | None) -> None:
    report, recipe, account = trial.report, trial.recipe, Account(trial.report)
    watch = memory.watch(trial.framework)
    watch.reset_peak()
    trainer, so_far = resuming.begin(trial, resumed)
    if trial.source is None:
        report.samples("network_fingerprint", [network_fingerprint(trial.graph(1))])
    else:
        if so_far.initial_fingerprint is None:
            initial = trial.fetch(trainer.parameters())
            so_far.initial_fingerprint = modules.fingerprint(initial)
        report.samples("initial_fingerprint", [so_far.initial_fingerprint])
    for epoch in range(so_far.epochs + 1, recipe.epochs + 1):
        result = _epoch(trial, trainer, epoch)
        _follow(trial, so_far, epoch, result)
        with report.pause():
            trial.team.close_epoch(trial, so_far, epoch)
            began = perf_counter()
            with trial.team.evaluate(trainer):
                test_loss, quality = trial.team.agree(*_evaluate(trial, trainer, so_far))
            evaluated = perf_counter() - began
        report.point("loss", epoch, test_loss)
        report.point(trial.quality, epoch, quality)
        account.add(result, evaluated)
        if not isfinite(test_loss):
            raise DivergedError(
                f"the loss on test data is {test_loss} after epoch {epoch}, expected a finite"
                " number"
            )
        so_far.add(
            train_loss=result.loss,
            learning_rate=result.rate,
            loss=test_loss,
            **{trial.quality: quality},
        )
        if recipe.target and not so_far.reached and _meets(trial, quality):
            so_far.reached = epoch
            if not so_far.resumed:
                account.reach()
            if recipe.target.stop:
                break
        if recipe.checkpoint_epochs and not epoch % recipe.checkpoint_epochs:
            with report.pause():
                resuming.save(trial, trainer, so_far)
    # of a resumed training no attempt has seen the whole way
    if not so_far.resumed:
        if catalog.reports_memory(trial.framework.name, trial.device):
            report.samples("peak_memory_bytes", [watch.peak()])
        account.conclude()
    _conclude(trial, so_far, trial.fetch(trainer.parameters()))
    report.off_tensor_cores = _find_plain_kernel(trial, trainer)


def _find_plain_kernel(trial: Prepared, trainer: Trainer) -> str:
    """Return a kernel of a product, of one step more, if it used no tensor cores.

    Empty of ranks that train together: a step of one would wait for the others.
    """
    if trial.team.ranks > 1:
        return ""

    def run() -> None:
        indices = trial.order(0)[: trial.recipe.batch]
        trainer.step(trial.place(trial.gather(0, 0, indices)), trial.rate(0))

    dtype = "bfloat16" if trial.mixed else trial.dtype
    return tensor_cores.look(trial.framework, dtype, run)


def _follow(trial: Prepared, so_far: Progress, epoch: int, result: Epoch) -> None:
    """Report what an epoch's steps were, and end the training where they have diverged."""
    report = trial.report
    if so_far.untrained is None:
        so_far.untrained = result.first_loss
        report.samples("untrained_loss", [result.first_loss])
    report.point("train_loss", epoch, result.loss)
    losses = result.loss, so_far.untrained
    if training.diverges(epoch, trial.recipe.epochs, *losses, trial.quality):
        raise DivergedError(
            f"the loss rose to {result.loss:.6g} in epoch {epoch}, from {so_far.untrained:.6g}"
            " before the first step"
        )
    report.point("learning_rate", epoch, result.rate)
    if not so_far.takes_order:
        return
    with report.pause():
        order = trial.team.gather_order(result.taken, trial.recipe.batch)
        so_far.add_order(order)
        if epoch == 1 and trial.quality in training.CLASSIFIES:
            below = trial.graph(1).inputs["label"].below or 0
            so_far.class_counts = trial.train.count_classes("label", below, order)
    if epoch == 1 and trial.quality in training.CLASSIFIES:
        report_classes(report, so_far.class_counts)


def _conclude(
    trial: Prepared,
    so_far: Progress,
    parameters: Mapping[str, Any],
) -> None:
    """Report what a whole training comes to.

    Raises:
        TargetError: It was to reach a quality and has not.
    """
    report, target = trial.report, trial.recipe.target
    qualities = so_far.curves[trial.quality]
    best = min(qualities) if training.is_error(trial.quality) else max(qualities)
    if not (target and target.stop):
        last = qualities[-training.LAST :]
        report.samples(f"final_{trial.quality}", [sum(last) / len(last)])
        report.samples(f"best_{trial.quality}", [best])
    chosen = predictions.encode(so_far.evaluations)
    if chosen is not None:
        report.keep(trial.kept, chosen)
    trained = trial.graph(1).trainable or parameters
    report.samples("training_samples", [trial.train.count])
    so_far.close_order()
    for name, fingerprint in (
        ("order", so_far.order_fingerprint),
        ("test", so_far.test_fingerprint),
    ):
        assert fingerprint is not None
        report.samples(f"{name}_fingerprint", [fingerprint])
    report.samples("parameters", [sum(parameters[name].size for name in trained)])
    if target:
        if so_far.reached is None:
            raise TargetError(
                f"{trial.quality} {target.value:g} was not reached in {trial.recipe.epochs}"
                f" epochs; the best {trial.quality} was {best:.6g}"
            )
        report.samples("epochs_to_target", [so_far.reached])
        report.samples("samples_to_target", [so_far.reached * trial.steps * trial.recipe.batch])


def _epoch(trial: Prepared, trainer: Trainer, epoch: int) -> Epoch:
    """Train on every whole batch once, or until a loss is not finite."""
    losses, taken, rates, feed = [], [], [], feeding.start(trial)
    batch, framework, team = trial.recipe.batch, trial.framework, trial.team
    first, place = (epoch - 1) * trial.steps, dict(zip(("rank", "ranks"), team.share))

    def make(item: tuple[int, Any]) -> feeding.Made:
        return feed.make(trial.gather(epoch - 1, *item))

    began = perf_counter()
    shares = list(enumerate(samplers.share(trial.order(epoch - 1), batch, **place), first))
    team.open_epoch(len(shares))
    with ahead.gather(make, shares, trial.recipe.workers) as batches:
        feed.open(batches)
        for number, indices in shares:
            inputs = feed.take()
            taken.append(indices)
            rates.append(trial.rate(number))
            losses.append(team.step(trainer, inputs, rates[-1]))
            feed.run_ahead()
            if (number - first) % WATCHED == WATCHED - 1:
                (watched,) = team.average([float(framework.to_numpy(losses[-1]))], batch)
                if not isfinite(watched):
                    break
    if framework.synchronize:
        framework.synchronize()
    seconds = perf_counter() - began
    lost = team.average(trial.read(losses), batch)
    return Epoch(
        loss=sum(lost) / len(lost),
        first_loss=lost[0],
        rate=fsum(rates) / len(rates),
        steps=len(lost),
        samples=batch * len(lost),
        seconds=seconds,
        waited=feed.waited,
        copied=feed.measure_copies(),
        size=feed.size,
        taken=taken,
    )


def _evaluate(trial: Prepared, trainer: Trainer, so_far: Progress) -> tuple[float, float]:
    """Return loss and quality over all test data; a rest that fills no batch counts as what it is.

    What has to be trained in parts to fit memory is evaluated in parts.
    """
    judged, fingerprint = results.start(trial), samplers.Fingerprint()
    for indices in batches(trial.test.count, trial.recipe.batch // trial.recipe.accumulate):
        inputs, graph = trial.test.take(indices), trial.evaluation(len(indices))
        noise = values.evaluation_noise(graph, trial.seed, int(indices[0]))
        *outputs, loss = trainer.evaluate(graph, judged.place({**inputs, **noise}))
        judged.add(outputs[0], loss, inputs, len(indices))
        if so_far.test_fingerprint is None:
            for name, array in inputs.items():
                fingerprint.add(name, array)
    if so_far.test_fingerprint is None:
        so_far.test_fingerprint = fingerprint.value()
    loss = judged.total() / trial.test.count
    so_far.evaluations.append(judged.evaluation.rows())
    return loss, judged.evaluation.value()


def _meets(trial: Prepared, quality: float) -> bool:
    target = trial.recipe.target
    assert target is not None
    return quality <= target.value if training.is_error(trial.quality) else quality >= target.value
