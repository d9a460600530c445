"""The first steps of a training beside those that are right, before it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Callable

from ..catalog import training
from ..frameworks import Framework
from ..frameworks.base import Resumable, Trainer
from ..graphs import passes, reference, values
from ..graphs.graph import Graph
from ..graphs.statistics import find
from ..instruments import capacity, doubles, nodes
from ..instruments.doubles import Bring
from ..job import Recipe
from ..optimizers import has_formula
from . import contract, modules, steps, trajectory
from .prepared import Prepared
from .team import Team


def hold_to_formulas(trial: Prepared, source: Path) -> None:
    """Check the first steps of a module in float64 against the optimizer's formulas."""
    batches, rates = take_first(trial, trial.recipe.batch)
    if not isinstance(trial.optimizer, str):
        contract.hold(trial, trial.graph(trial.recipe.batch), batches, rates)
    placed = [trial.place(inputs, training.EXACT) for inputs in batches]
    if trial.checkpoints:
        hold_to_checkpoint(trial, source, placed, rates)
    if not has_formula(trial.optimizer):
        return
    how = trial.optimizer, trial.recipe.numbers, trial.recipe.tuning, trial.seed
    errors = modules.follow(trial.framework, source, placed, rates, *how)
    for step, error in enumerate(errors, 1):
        trial.report.point("update_error", step, error)


def hold_to_checkpoint(
    trial: Prepared, source: Path, placed: Sequence[Mapping[str, Any]], rates: Sequence[float]
) -> None:
    """Check the last of the first steps against a copy that resumes from a checkpoint.

    Args:
        trial: With a module.
        source: Its file.
        placed: What each step is given, on the device and in float64.
        rates: The learning rate of each.

    Raises:
        ValueError: They differ, so a checkpoint would not keep all that the steps go by.
    """
    framework, graph = trial.framework, trial.graph(trial.recipe.batch)
    *first, last = zip(placed, rates)
    with framework.arithmetic(training.EXACT):
        one, other = (trial.start(graph, training.EXACT) for _ in range(2))
        assert isinstance(one, Resumable)
        assert isinstance(other, Resumable)
        for inputs, rate in first:
            one.step(inputs, rate)
        before = modules.copy(framework, one.parameters())
        kept = modules.copy(framework, one.state())
        one.step(*last)
        # with it the generators are where they were
        other.restore({name: framework.from_numpy(array) for name, array in kept.items()})
        other.step(*last)
        due, reached = (modules.copy(framework, trainer.parameters()) for trainer in (one, other))
    if trajectory.distance(reached, due, before, before) > trajectory.ROUNDING:
        raise ValueError(
            f"{source.name} trains differently after a checkpoint: its steps depend on state"
            " outside of parameters, buffers, the optimizer's state and the generators of torch,"
            " numpy and Python; store that state in a buffer, or leave checkpoint_epochs out"
        )


def take_first(
    trial: Prepared, batch: int, count: int = training.JUDGED_STEPS
) -> tuple[list[dict[str, Any]], list[float]]:
    """Return the inputs of so many first steps, so many samples each, and their rates."""
    order = trial.order(0)
    batches = [
        {
            **trial.train.take(order.take(range(step * batch, (step + 1) * batch), mode="wrap")),
            **values.noise(trial.graph(batch), trial.seed, step),
        }
        for step in range(count)
    ]
    return batches, [trial.rate(step) for step in range(len(batches))]


def hold_to_reference(trial: Prepared, part: int, parts: int, bring: Bring) -> None:
    """Check the first steps, and an evaluation after them, against the reference.

    The reference takes as a whole what the framework takes in parts, but for statistics of batches,
    which are those of each part. Of an optimizer without a formula no step is right or wrong, and
    the evaluation is held to one with the parameters that these steps come to.

    Args:
        trial: Trial of a network of the catalogue.
        part: Samples of a micro-batch.
        parts: How many of these are a step.
        bring: Puts an array where the reference is computed.
    """
    graph, batch, due = trial.graph(part), part * parts, None
    whole = graph if find(graph) else trial.graph(batch)
    # which operations run in which type is the framework's choice, and has no bound here
    record = None if trial.mixed else nodes.Record(trial.dtype)
    batches, rates = take_first(trial, batch)
    if not isinstance(trial.optimizer, str):
        contract.hold(trial, graph, batches, rates)
    if has_formula(trial.optimizer):
        how = trial.optimizer, trial.recipe.numbers
        first_step: reference.Step = record or reference.exactly
        due = trajectory.follow(whole, trial.parameters, batches, rates, *how, first_step, bring)
    elif record:
        trajectory.look(whole, trial.parameters, batches[0], record, bring)
    judged = (("exact_trajectory_error", training.EXACT), ("trajectory_error", None))
    for metric, dtype in judged if due else judged[:1]:
        with trial.framework.arithmetic(dtype or trial.dtype):
            trainer = trial.start(graph, dtype)
            for step, (inputs, at) in enumerate(zip(batches, rates)):
                trainer.step(trial.place(inputs, dtype), at)
                reached = trial.fetch(trainer.parameters())
                if due:
                    error = trajectory.distance(
                        reached, due[step].after, trial.parameters, graph.trainable
                    )
                    trial.report.point(metric, step + 1, error)
            if dtype == training.EXACT:
                after = due[-1].after if due else reached
                _hold_evaluation(trial, batch, trainer, {**trial.parameters, **after}, bring)
    if record is None:
        return
    with trial.framework.arithmetic(trial.dtype):
        first = next(passes.split(whole, batches[0]))
        _hold_nodes(trial, whole, first, record, [one.gradients for one in due or ()], rates)


def _hold_nodes(
    trial: Prepared,
    graph: Graph,
    inputs: Mapping[str, Any],
    record: nodes.Record,
    gradients: Sequence[Mapping[str, Any]],
    rates: Sequence[float],
) -> None:
    """Check the first step node by node, and the optimizer alone."""
    recipe, framework = trial.recipe, trial.framework
    held = [nodes.hold_nodes(framework, graph, inputs, record)]
    # L-BFGS divides by small differences of gradients, and a user's formula may do what it likes:
    # rounding has no bound there
    if isinstance(trial.optimizer, str) and trial.optimizer != "lbfgs":
        held.append(
            steps.hold_optimizer(
                framework,
                graph,
                trial.parameters,
                gradients,
                rates,
                trial.optimizer,
                recipe.numbers,
                recipe.tuning,
                trial.dtype,
            )
        )
    trial.report.samples("node_error_ratio", [max(one.ratio for one in held)])
    trial.report.samples("bound_share", [max(one.share for one in held)])


def _hold_evaluation(
    trial: Prepared,
    batch: int,
    trainer: Trainer,
    parameters: Mapping[str, Any],
    bring: Bring,
) -> None:
    """Check an evaluation in float64 against that of the reference with its parameters."""
    graph = trial.evaluation(batch)
    inputs = {
        **trial.test.take([index % trial.test.count for index in range(batch)]),
        **values.evaluation_noise(graph, trial.seed, 0),
    }
    results = trainer.evaluate(graph, trial.place(inputs, training.EXACT))
    due = trajectory.evaluate(graph, parameters, inputs, bring)
    error = trajectory.deviation([trial.framework.to_numpy(one) for one in results], due)
    trial.report.samples("evaluation_error", [error])


def choose_parts(recipe: Recipe, graph: Graph) -> tuple[int, int]:
    """Return samples of a micro-batch that is held to the reference, and how many of these.

    Args:
        recipe: Says how many samples and micro-batches a step has.
        graph: The network for a batch of 1.

    Raises:
        ValueError: The batch has no equal parts.
    """
    if recipe.batch % recipe.accumulate:
        raise ValueError(
            f"a batch of {recipe.batch} is not a multiple of accumulate {recipe.accumulate}"
        )
    whole = recipe.micro_batch(recipe.batch)
    is_large = bool(graph.loss) and _count_values(graph) > trajectory.MOST_VALUES
    most = trajectory.LARGE_SAMPLES if is_large else trajectory.MOST_SAMPLES
    least = 1
    if graph.loss and find(graph) and not (is_large and _varies(graph)):
        # a channel of one sample may have one value, which has no variance
        least = min(whole, 2)
    parts = min(recipe.batch // whole, most // least)
    return min(whole, most // parts), parts


def _count_values(graph: Graph) -> int:
    return sum(prod(node.shape) for node in graph.training)


def _varies(graph: Graph) -> bool:
    """Return whether each channel that is normalized by the batch has several values in it."""
    normalized = {one.node for one in find(graph)}
    return all(prod(node.shape[2:]) > 1 for node in graph.training if node.name in normalized)


def choose_place(
    recipe: Recipe, graph: Callable[[int], Graph], dtype: str, framework: Framework, team: Team
) -> Bring:
    """Return what brings arrays to where the reference of a training is computed.

    Beside it, a process's part of a step fits the device.

    Args:
        recipe: How the network is trained.
        graph: Builds the network for a batch.
        dtype: Word of `DTYPES`, or `training.MIXED`.
        framework: Where it is trained.
        team: Who else trains it.

    Raises:
        MemoryError: See `capacity.fits`.
    """
    judged, parts = choose_parts(recipe, graph(1))
    first, end = team.span(recipe.batch)
    own = end - first
    # the reference takes one micro-batch after the other where each has statistics of its own
    alone = judged if find(graph(1)) else judged * parts
    checked = graph(max(alone, team.judged_samples(recipe.batch, recipe.parts(own))))
    is_mixed = dtype == training.MIXED
    kind = "float32" if is_mixed else dtype
    fits = partial(
        capacity.network_fits,
        team.part(graph(recipe.micro_batch(own))),
        replace(checked, nodes=checked.training),
        kind,
        framework,
        True,
        trajectory.ARRAYS if is_mixed else nodes.ARRAYS,
    )
    return doubles.choose(framework, kind, doubles.find_formulas(checked), fits)
