"""Error bounds of a network's correct implementations: computed, never tuned.

Worst cases, followed through a deep network, grow without measure, and intervals lose their meaning
behind the first normalization. So the bound is had in two parts:

1. Of each step (a node forward, a node backward, the sum of two gradients of one value) the largest
   right error e of each element, for the exact values of its inputs: the rules of
   `operators.rounding`, but for sums those of `operators.likely`.
2. What a right implementation computes is then the exact network with the result of each step
   moved by at most e. How moves reach outputs and gradients is sampled: in `RUNS` runs in float64
   each element of each step's result is moved by +e or -e, by random bits (Monte Carlo arithmetic:
   Parker, UCLA CSD-970002, 1997; CESTAC: Vignes, Math. Comput. Simul. 35, 1993). Every second
   run takes the opposite signs of the one before, for the sake of kinks (relu, maxima): a value so
   near to one that rounding may carry it across is carried across in one run of nearly each pair.

The bound of an output or gradient is `MARGIN` times the root mean square, over the runs, of the
L2 norm of its distance from the unmoved one. By Markov's inequality on the square at most one in
MARGIN**2 = 16 such moved runs lies farther off. Real errors are no such runs: they are mostly far
smaller than e, and of mixed signs; yet this second part is a statement about random signs, not a
proof about all. Where the bound comes near the size of the output itself (16-bit types in deep
networks), a ratio below 1 says little; `relative_error` tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..operators import ARITHMETIC, EXACT, several
from ..operators.likely import Likely
from ..operators.rounding import Rounded, Rounding
from ..streams import signs
from .graph import Graph
from .reference import Formula, Values, as_reals, differentiate, evaluate, widen

RUNS = 4
MARGIN = 4


@dataclass(frozen=True)
class Bounds:
    """The largest L2 norm that the error of each result can have.

    Attributes:
        outputs: In the order of `graph.outputs`.
        loss: Bound of the loss; None for a network without one.
        gradients: By the names of `graph.trainable`; empty without a loss.
    """

    outputs: tuple[float, ...]
    loss: float | None
    gradients: Mapping[str, float]


def bounds(graph: Graph, values: Values, dtype: str, seed: int) -> Bounds:
    """Return the bounds of a network's outputs, and of its loss and gradients if it has a loss.

    Args:
        graph: The network.
        values: Inputs and parameters by name, numpy arrays.
        dtype: A key of `ARITHMETIC`.
        seed: For the signs of the moves; the same seed gives the same bounds, but for the last
            bits that numpy's BLAS may sum otherwise elsewhere.

    Raises:
        ValueError: A step has no bound, as a divisor may be 0.
    """
    exact = widen(values, dtype)
    local = _Local(dtype)
    right = _run(graph, exact, local)
    squares = dict.fromkeys(right, 0.0)
    for run in range(RUNS):
        label = f"capsule-moves-1\n{graph.name}\n{seed}\n{run // 2}\n"
        moves = _Moved(label, local.errors, opposite=run % 2 == 1)
        for name, moved in _run(graph, exact, moves).items():
            squares[name] += float(((moved - right[name]) ** 2).sum()) / RUNS
    norms = {key: MARGIN * square**0.5 for key, square in squares.items()}
    return Bounds(
        tuple(norms["value", name] for name in graph.outputs),
        None if graph.loss is None else norms["value", graph.loss],
        {} if graph.loss is None else {name: norms["gradient", name] for name in graph.trainable},
    )


def calculator(dtype: str) -> Rounding:
    """Return the rules that bound the error of one step for exact inputs.

    Args:
        dtype: A key of `ARITHMETIC`.
    """
    import numpy

    arithmetic = ARITHMETIC[dtype]
    # the reference has roundings of its own, in the same places
    return Likely(arithmetic, float(numpy.finfo(arithmetic.wider).eps) / 2)


def _run(graph: Graph, values: Values, step: Any) -> dict[tuple[str, str], Any]:
    """Return outputs, loss and gradients, computed step by step."""
    computed = evaluate(graph.nodes, values, step)
    results = {("value", name): as_reals(computed[name]) for name in graph.outputs}
    if graph.loss is None:
        return results
    results["value", graph.loss] = computed[graph.loss]
    for name, gradient in differentiate(graph, values, computed, step).items():
        results["gradient", name] = gradient
    return results


class _Local:
    """Steps that keep the error bound of each result and return the exact one."""

    def __init__(self, dtype: str) -> None:
        self._calculator = calculator(dtype)
        self.errors: dict[str, tuple[Any, ...]] = {}

    def __call__(self, label: str, function: Formula, *arrays: Any) -> tuple[Any, ...]:
        c = self._calculator
        if all(array.dtype.kind != "f" for array in arrays):
            return several(function(EXACT, *arrays))
        operands = [c.enter(array) if array.dtype.kind == "f" else array for array in arrays]
        results = several(function(c, *operands))
        self.errors[label] = tuple(map(_error, results))
        return tuple(c.value(result) for result in results)


def _error(result: Any) -> Any:
    """Return the bound of each element: whole numbers, decisions and infinities are what they
    are.
    """
    import numpy

    if not isinstance(result, Rounded):
        return numpy.zeros(result.shape)
    infinite = numpy.isinf(result.value)
    return numpy.where(infinite, 0.0, result.error) if infinite.any() else result.error


class _Moved:
    """Steps whose results are moved by their error bounds, with random signs."""

    def __init__(
        self, label: str, errors: Mapping[str, tuple[Any, ...]], *, opposite: bool
    ) -> None:
        self._label = label
        self._errors = errors
        self._sign = -1 if opposite else 1

    def __call__(self, label: str, function: Formula, *arrays: Any) -> tuple[Any, ...]:
        results = several(function(EXACT, *arrays))
        return (
            tuple(
                right + self._sign * error * signs(f"{self._label}{label}\n{index}\n", error.shape)
                if error.any()
                else right
                for index, (right, error) in enumerate(zip(results, self._errors.get(label, ())))
            )
            or results
        )
