"""The steps of an optimizer alone, held to their own a-priori bound, in the trial's own dtype.

With u the unit roundoff of the dtype, the parameters p after some steps with the reference's
gradients may be off, in the L2 norm over all of them, by

    the sum over the steps of   u |p| + ROUNDINGS u |change of p in the step| / (1 - b)

where b is the largest number of the optimizer by which a moving average forgets, and 1 - b is what
it divides by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..catalog.training import Numbers, Tuning
from ..frameworks import Framework
from ..frameworks.base import require, tune
from ..graphs import apart
from ..graphs.graph import Graph
from ..instruments.nodes import Held, find_networks, measure_share, measure_size, place
from ..operators import ARITHMETIC, round_to
from ..optimizers import Optimizer

ROUNDINGS = 16
"""Operations for an element in one step of an optimizer with its numbers: Adam has most."""

_FORGETTING = ("beta1", "beta2", "alpha", "momentum")

Arrays = Mapping[str, Any]


def hold_optimizer(
    framework: Framework,
    graph: Graph,
    parameters: Arrays,
    gradients: Sequence[Arrays],
    rates: Sequence[float],
    optimizer: str,
    numbers: Numbers,
    tuning: Tuning,
    dtype: str,
) -> Held:
    """Let the optimizer take some steps with gradients that are given.

    Args:
        framework: Where.
        graph: The network.
        parameters: Before the first step, in the dtype.
        gradients: Those of each step by trained parameter, in any dtype.
        rates: The learning rate of each.
        optimizer: Key of `catalog.training.OPTIMIZERS`.
        numbers: All that it takes.
        tuning: Choices of the recipe.
        dtype: A key of `ARITHMETIC`.

    Returns:
        The largest of all steps; the share is that of the change since the first.
    """
    weighed, formulas = apart.leave_parameters(graph), Optimizer(optimizer, numbers)
    trainer = require(find_networks(framework).trainer, framework.name, "train")(
        weighed, place(framework, parameters, graph.trainable, dtype), optimizer, numbers
    )
    tune(trainer, tuning, framework.name)
    before = {name: parameters[name].astype("float64") for name in graph.trainable}
    present, bound, ratios, shares = before, 0.0, [], []
    for of_step, rate in zip(gradients, rates):
        rounded = {name: round_to(of_step[name], dtype) for name in graph.trainable}
        columns = {apart.upstream(name): array.reshape(-1, 1) for name, array in rounded.items()}
        trainer.step(place(framework, columns, columns, dtype), rate)
        wide = {name: array.astype("float64") for name, array in rounded.items()}
        moved = formulas.step(present, wide, rate)
        bound += _bound_step(present, moved, numbers, dtype)
        present = moved
        reached = trainer.parameters()
        off = [framework.to_numpy(reached[name]) - present[name] for name in before]
        ratios.append(measure_size(off) / bound)
        shares.append(measure_share([bound], [present[name] - before[name] for name in before]))
    return Held(max(ratios), max(shares))


def _bound_step(before: Arrays, after: Arrays, numbers: Numbers, dtype: str) -> float:
    """See the module."""
    arithmetic = ARITHMETIC[dtype]
    least = min(1 - numbers.get(name, 0.0) for name in _FORGETTING) or 1.0
    change = measure_size([after[name] - before[name] for name in after])
    count = sum(array.size for array in after.values())
    tiny = ROUNDINGS * arithmetic.tiny * math.sqrt(count)
    return arithmetic.storage * (measure_size(after.values()) + ROUNDINGS * change / least) + tiny
