"""Where the reference of a trial is computed: on its device in float64, or in the host's memory.

The formulas of operators are written in numpy. Where numpy's functions take arrays of the device,
the same formulas give reference, bounds and gradients there, in a small part of the time. The first
time that a process needs the formula of an operator for a dtype there, its results at the odd sizes
of the catalogue are compared with those of the host.

In the host's memory stay formulas that need more bits than float64 has, those of a user's file and
of ONNX nodes, and what does not fit on the device.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from .. import catalog, operators
from ..frameworks import Framework
from ..frameworks.base import KeepsDoubles
from ..graphs import structure
from ..graphs.graph import Graph
from ..operators import ARITHMETIC, Due
from . import errors

AGREES = 2.0**-10
"""Largest difference between device and host: of an element, as a share of its bound, and of a
bound, as a share of itself."""

_SEED = 17

_held: set[tuple[Framework, str, str]] = set()


class DisagreementError(Exception):
    """The formula of an operator gives another result on the device than in the host's memory."""


class Bring(Protocol):
    """Puts an array where references are computed."""

    def __call__(self, array: Any) -> Any:
        """Return the array there."""


class Fits(Protocol):
    """Compares what a trial needs with what is free."""

    def __call__(self, *, on_device: bool = False) -> None:
        """Compare it for references on the device, or in the host's memory.

        Raises:
            MemoryError: It does not fit.
        """


def keep(array: Any) -> Any:
    """Return an array as it is: references are computed in the host's memory."""
    return array


def fetch(array: Any) -> Any:
    """Return an array in the host's memory."""
    import numpy

    return array if isinstance(array, (numpy.ndarray, numpy.generic)) else numpy.asarray(array)


def choose(framework: Framework, dtype: str, names: Collection[str] | None, fits: Fits) -> Bring:
    """Return what brings arrays to where the references of a trial are computed.

    Args:
        framework: Where the trial runs.
        dtype: A key of `ARITHMETIC`.
        names: Operators of the catalogue whose formulas are needed; None if others are, too.
        fits: Compares what the trial needs with what is free.

    Raises:
        DisagreementError: An operator's formula gives another result on the device.
        MemoryError: References fit neither on the device nor in the host's memory.
    """
    if (
        names is None
        or ARITHMETIC[dtype].wider != "float64"
        or framework.memory is None
        or not isinstance(framework, KeepsDoubles)
    ):
        fits()
        return keep
    try:
        fits(on_device=True)
    except MemoryError:
        fits()
        return keep
    device = framework

    def bring(array: Any) -> Any:
        # indices and masks stay; of integers of 8 bits products are made
        kind, size = array.dtype.kind, array.dtype.itemsize
        return device.to_doubles(array) if kind == "f" or (kind in "iu" and size == 1) else array

    for name in names:
        if (framework, name, dtype) not in _held:
            _hold(name, dtype, bring)
            _held.add((framework, name, dtype))
    return bring


def find_formulas(graph: Graph) -> tuple[str, ...] | None:
    """Return the operators of the catalogue in a network; None if it has ONNX nodes, too."""
    used = {node.operator for node in graph.nodes}
    return None if structure.ONNX in used else tuple(sorted(used & set(catalog.OPERATORS)))


def describe(subject: str, bring: Bring) -> str:
    """Return a sentence on where the reference was computed; empty for the host's memory."""
    return "" if bring is keep else f"{subject}: reference computed on the device in float64"


def _hold(name: str, dtype: str, bring: Bring) -> None:
    """See that device and host agree on an operator's results, gradients and bounds.

    Raises:
        DisagreementError: They do not.
    """
    entry = catalog.OPERATORS[name]
    operator = operators.load(name)
    _, point = (entry.cases.get("odd") or entry.cases["quick"])[0]
    sizes = entry.complete(point)
    drawn = operator.hard_inputs(sizes, dtype, _SEED)
    arriving = operator.hard_upstream(sizes, dtype, _SEED)

    def compute(bring: Bring) -> tuple[tuple[Due, ...], tuple[float, ...]]:
        inputs, upstream = tuple(map(bring, drawn)), tuple(map(bring, arriving))
        forward = operator, sizes, inputs
        backward = (*forward, upstream, dtype)
        due = operators.due(*forward, dtype) + operators.due_gradients(*backward)
        return due, operators.bounds(*forward, dtype) + operators.gradient_bounds(*backward)

    (here, limits), (there, others) = compute(keep), compute(bring)
    apart = _compare(here, there, limits, others)
    if not apart <= AGREES:
        raise DisagreementError(
            f"the reference of {name} in {dtype} on the device differs from the host's: found"
            f" {apart:.3g} of its bound, expected at most {AGREES:.3g}"
        )


def _compare(
    here: tuple[Due, ...],
    there: tuple[Due, ...],
    limits: tuple[float, ...],
    others: tuple[float, ...],
) -> float:
    """Return the largest difference, as `AGREES` has it; NaN if any is."""
    import numpy

    values = tuple(numpy.asarray(one.value) for one in there)
    found = [errors.worst_element(values, here)]
    pairs = [(one.error, numpy.asarray(other.error)) for one, other in zip(here, there)]
    pairs.append((numpy.array(limits), numpy.array(others)))
    for first, second in pairs:
        with numpy.errstate(divide="ignore", invalid="ignore"):
            share = numpy.where(first == second, 0.0, abs(first - second) / abs(first))
        found.append(float(share.max(initial=0.0)))
    return errors.largest(found)
