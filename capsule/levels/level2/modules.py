"""A user's module as Level 2 trains it: what it takes, and what its first steps are held to.

There is no reference of its formulas. Its steps in float64 are held to those of a plain loop: the
framework's gradients at the parameters that the loop has reached, and the optimizer's formulas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Callable

from ..catalog import modules, training
from ..catalog.training import Numbers, Tuning
from ..data import samplers
from ..frameworks import Framework
from ..frameworks.base import ModuleTrainer, require, tune
from ..graphs.graph import Graph, Input
from ..optimizers import Chosen, Optimizer
from ..sources import import_file
from . import trajectory


def describe(source: Path) -> tuple[Callable[[int], Graph], str]:
    """Describe a module's inputs as a graph for any batch, with the name of its quality.

    Raises:
        ValueError: The file does not say it.
    """
    file = import_file(source, modules.NEEDED)
    try:
        facts = modules.read(file.inputs, file.quality)
    except ValueError as error:
        raise ValueError(f"{source.name}: {error}") from None

    @cache
    def graph(batch: int) -> Graph:
        inputs = {
            name: Input((batch, *sample.shape), sample.below)
            for name, sample in facts.inputs.items()
        }
        return Graph(source.name, inputs, {}, (), (), None)

    return graph, facts.quality


def start(
    framework: Framework,
    source: Path,
    dtype: str,
    seed: int,
    optimizer: Chosen,
    numbers: Numbers,
    tuning: Tuning,
) -> ModuleTrainer:
    """Return a training of a module that has taken no step.

    Raises:
        FrameworkError: The framework has no such modules.
        ValueError: The file or its module is not what it has to be.
    """
    import numpy

    networks = require(framework.networks, framework.name, "run networks")
    begin = require(networks.module, framework.name, "train a torch.nn.Module")
    like = framework.from_numpy(numpy.zeros(1, "float32"), dtype)
    made = begin(source, seed, like, optimizer, numbers)
    tune(made, tuning, framework.name)
    return made


def fingerprint(parameters: Mapping[str, Any]) -> int:
    """Tells initial values from others."""
    initial = samplers.Fingerprint()
    for name, array in parameters.items():
        initial.add(name, array)
    return initial.value()


def follow(
    framework: Framework,
    source: Path,
    batches: Sequence[Mapping[str, Any]],
    rates: Sequence[float],
    chosen: Chosen,
    numbers: Numbers,
    tuning: Tuning,
    seed: int,
) -> Iterator[float]:
    """After each step the distance of the parameters from the loop's; see `trajectory.distance`.

    Args:
        framework: Where the module runs.
        source: Its file.
        batches: What each step is given, on the device and in float64.
        rates: The learning rate of each.
        chosen: Key of `catalog.training.OPTIMIZERS`, or a user's that has a formula.
        numbers: All that it takes.
        tuning: Choices of the recipe.
        seed: Seed of the initial values, and of what the module draws in each step.
    """
    import numpy

    optimizer, how = Optimizer(chosen, numbers), (training.EXACT, seed, chosen, numbers, tuning)
    with framework.arithmetic(training.EXACT):
        trainer, loop = (start(framework, source, *how) for _ in range(2))
        present = before = copy(framework, trainer.parameters())
        for inputs, rate in zip(batches, rates):
            # so that both draw the same
            framework.seed(seed)
            trainer.step(inputs, rate)
            framework.seed(seed)
            at = {name: framework.from_numpy(array) for name, array in present.items()}
            gradients = copy(framework, loop.differentiate(at, inputs))
            # what numpy adds up to a single number is no array
            moved = optimizer.step(present, gradients, rate)
            present = {name: numpy.asarray(array) for name, array in moved.items()}
            reached = copy(framework, trainer.parameters())
            yield trajectory.distance(reached, present, before, before)


def copy(framework: Framework, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return tensors as arrays of their own: those of torch change where the parameters do."""
    import numpy

    return {name: numpy.array(framework.to_numpy(tensor)) for name, tensor in tensors.items()}
