"""One Level 0 trial: make inputs, time the native operation, hold its results to a reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .. import catalog, operators
from ..frameworks import Framework
from ..frameworks.base import Operators, require
from ..instruments import capacity, errors, memory
from ..instruments.calls import Series, arrays, repeatable, timed
from ..operators import Operator


@dataclass(frozen=True)
class _Trial:
    """A trial with everything made that it needs."""

    operator: Operator
    sizes: Mapping[str, int]
    dtype: str
    warmup: int
    calls: int
    framework: Framework
    inputs: tuple[Any, ...]
    upstream: tuple[Any, ...]

    @property
    def native(self) -> Operators:
        """How the framework runs operators."""
        return require(self.framework.operators, self.framework.name, "run single operators")

    @property
    def tensors(self) -> tuple[Any, ...]:
        """The inputs, on the device."""
        return tuple(self.framework.from_numpy(each, self.dtype) for each in self.inputs)

    def arrays(self, results: tuple[Any, ...], shapes: Iterable[tuple[int, ...]]) -> Any:
        """Results as numpy arrays, once they have the shapes and the dtype that are due."""
        return arrays(self.framework, self.operator.name, self.dtype, results, shapes)


def measure(
    trial: Mapping[str, Any], framework: Framework, seed: int, device: str = "cpu"
) -> list[Series]:
    """Run one trial and return its samples.

    The results that are checked are those of the last timed calls.

    Args:
        trial: An entry of a job's `trials`.
        framework: Where it runs.
        seed: The trial's seed.
        device: `cpu` or `cuda`.

    Returns:
        The metrics of `catalog.due`, in its order: one value per call for times and rates, warm-up
        first; one value for errors and counts, block by block for the heat map.

    Raises:
        MemoryError: It would not fit; tried nothing.
        ValueError: The framework lacks the operator or dtype, or returned another shape or dtype.
    """
    name, dtype = trial["operator"], trial["dtype"]
    operator, subject = operators.find(name, trial.get("source"))
    if reason := catalog.unsupported(subject, framework.name, dtype, device):
        raise ValueError(reason)
    sizes = subject.complete(trial["parameters"])
    differentiates = catalog.FRAMEWORKS[framework.name].differentiates
    capacity.fits(operator, sizes, dtype, framework, differentiates)
    made = _Trial(
        operator,
        sizes,
        dtype,
        trial["warmup"],
        trial["warmup"] + trial["repetitions"],
        framework,
        operator.inputs(sizes, dtype, seed),
        operator.upstream(sizes, dtype, seed),
    )
    with framework.arithmetic(dtype):
        found = dict(_forward(made))
        if differentiates:
            found.update(_backward(made, seed))
    due = [each.name for each in catalog.due(subject, framework.name, device)]
    by_call = {"forward_time", "backward_time"} | {each for each in due if "per_second" in each}
    return [Series(each, made.warmup if each in by_call else 0, tuple(found[each])) for each in due]


def _forward(trial: _Trial) -> Iterator[tuple[str, tuple[float, ...]]]:
    operator, sizes = trial.operator, trial.sizes
    call, arguments = trial.native.operation(operator, sizes, trial.tensors)
    watch = memory.watch(trial.framework)
    watch.reset_peak()
    seconds, results = timed(trial.framework, call, arguments, trial.calls)
    yield "peak_memory_bytes", (float(watch.peak()),)
    flops, moved = operator.flops(sizes), operator.bytes(sizes, trial.dtype)
    yield "forward_time", seconds
    yield "forward_flops", (float(flops),)
    yield "forward_bytes", (float(moved),)
    # a call shorter than the clock's step is taken to last one
    yield "forward_flops_per_second", tuple(flops / max(each, 1e-9) for each in seconds)
    yield "forward_bytes_per_second", tuple(moved / max(each, 1e-9) for each in seconds)
    found = trial.arrays(results, operator.outputs(sizes))
    yield "repeatable", (float(repeatable(trial.framework, call, arguments, found)),)
    reference = operators.reference(operator, sizes, trial.inputs, trial.dtype)
    bounds = operators.bounds(operator, sizes, trial.inputs, trial.dtype)
    yield from errors.errors(found, reference, bounds).items()


def _backward(trial: _Trial, seed: int) -> Iterator[tuple[str, tuple[float, ...]]]:
    operator, sizes, framework = trial.operator, trial.sizes, trial.framework
    tensors = trial.tensors
    wrt = operator.wrt(sizes)
    upstream = tuple(framework.from_numpy(each, trial.dtype) for each in trial.upstream)
    gradient = require(trial.native.gradient, framework.name, "differentiate")
    call, arguments = gradient(operator, sizes, tensors, wrt, upstream)
    seconds, results = timed(framework, call, arguments, trial.calls)
    yield "backward_time", seconds
    gradients = trial.arrays(results, (trial.inputs[index].shape for index in wrt))
    given = (operator, sizes, trial.inputs, trial.upstream, trial.dtype)
    bounds = operators.gradient_bounds(*given)
    yield (
        "grad_l2_error_ratio",
        (errors.worst_ratio(gradients, operators.reference_gradients(*given), bounds),),
    )
    yield "gradient_check", (errors.directional(*given[:-1], gradients, bounds, seed),)
