"""A user's optimizer, and what it keeps to, whatever its formula: seen in the first steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..catalog import determinism, optimizers, training
from ..frameworks.base import Resumable
from ..graphs.graph import Graph
from ..job import Recipe, Trial
from ..optimizers import Chosen, user
from . import trajectory
from .prepared import Prepared


def choose(trial: Trial, recipe: Recipe, framework: str) -> Chosen:
    """Return the optimizer of a recipe, a user's file imported.

    Raises:
        ValueError: The file is not what it has to be, or the framework cannot train so.
    """
    how = framework, recipe.optimizer, trial.dtype
    if reason := training.refusal(*how, is_module=trial.source is not None):
        raise ValueError(reason)
    how = framework, trial.context.device, recipe.optimizer
    if reason := training.refuse_tuning(recipe.tuning, *how, is_module=trial.source is not None):
        raise ValueError(reason)
    mode = recipe.tuning.compile_mode if trial.context.determinism == "strict" else ""
    if reason := determinism.refuse_mode(mode):
        raise ValueError(reason)
    if reason := optimizers.mismatch(training.QUALITY.get(trial.subject, ""), recipe.optimizer):
        raise ValueError(reason)
    if not recipe.has_own_optimizer:
        return recipe.optimizer
    own = user.load(Path(recipe.optimizer), recipe.numbers)
    if reason := optimizers.refusal(framework, own.facts):
        raise ValueError(reason)
    return own


def hold(
    trial: Prepared, graph: Graph, batches: Sequence[Mapping[str, Any]], rates: Sequence[float]
) -> None:
    """See that steps go by their rate and, where there are checkpoints, by what these keep.

    Args:
        trial: With an optimizer of a file.
        graph: The network, for the batches or parts of them.
        batches: The inputs of the first steps, numpy arrays by name; three.
        rates: The learning rate of each.

    Raises:
        ValueError: They do not.
    """
    assert not isinstance(trial.optimizer, str)
    name, framework = trial.optimizer.name, trial.framework
    placed = [trial.place(inputs, training.EXACT) for inputs in batches]
    with framework.arithmetic(training.EXACT):
        one, other = (trial.start(graph, training.EXACT) for _ in range(2))
        before = _copy(trial, one.parameters())
        trained = graph.trainable or tuple(before)
        for trainer, rate in ((one, rates[0]), (other, rates[0] / 2)):
            # so that both draw the same
            framework.seed(trial.seed)
            trainer.step(placed[0], rate)
        far, near = (_pick(trial, trainer.parameters(), trained) for trainer in (one, other))
        moves = any((far[key] != before[key]).any() for key in far)
        if moves and trajectory.distance(near, far, before, far) <= trajectory.ROUNDING:
            raise ValueError(
                f"{name} ignores the learning rate: use lr of its param_groups, which a recipe's"
                " schedule sets"
            )
        # a module draws as it likes: see `checks.hold_to_checkpoint`
        if trial.checkpoints and trial.source is None:
            assert isinstance(one, Resumable)
            assert isinstance(other, Resumable)
            _resume(trial, (one, other), placed[1:], rates[1:])


def _resume(
    trial: Prepared,
    trainers: tuple[Resumable, Resumable],
    placed: Sequence[Mapping[str, Any]],
    rates: Sequence[float],
) -> None:
    """Let the second of two trainers go on from the first, and take the same step."""
    assert not isinstance(trial.optimizer, str)
    one, other = trainers
    one.step(placed[0], rates[0])
    kept = _copy(trial, one.state())
    before = _copy(trial, one.parameters())
    other.restore({key: trial.framework.from_numpy(array) for key, array in kept.items()})
    for trainer in trainers:
        trial.framework.seed(trial.seed + (trainer is other))
        trainer.step(placed[1], rates[1])
    due, reached = (_copy(trial, trainer.parameters()) for trainer in trainers)
    if trajectory.distance(reached, due, before, before) > trajectory.ROUNDING:
        raise ValueError(
            f"restored from a checkpoint, {trial.optimizer.name} takes different steps than without"
            " the interruption: store all state that its steps depend on in state_dict() or in the"
            " formula's state, or leave checkpoint_epochs out"
        )


def _pick(trial: Prepared, tensors: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return _copy(trial, {name: tensors[name] for name in names})


def _copy(trial: Prepared, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return arrays of their own: those of torch change where the tensors do."""
    return {name: array.copy() for name, array in trial.fetch(tensors).items()}
