"""One Level 0 trial: make inputs, time the native operation, hold its results to a reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from .. import catalog, operators
from ..frameworks import Framework
from ..frameworks.base import Operators, require
from ..instruments import capacity, errors, memory
from ..instruments.calls import Series, arrays, repeatable, report_due, time
from ..job import Trial
from ..operators import Operator
from ..report import Report


@dataclass(frozen=True)
class _Prepared:
    """A trial with everything made that it needs."""

    operator: Operator
    sizes: Mapping[str, int]
    dtype: str
    seed: int
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
        return tuple(self.framework.from_numpy(array, self.dtype) for array in self.inputs)

    def arrays(self, results: tuple[Any, ...], shapes: Iterable[tuple[int, ...]]) -> Any:
        """Results as numpy arrays, once they have the shapes and the dtype that are due."""
        return arrays(self.framework, self.operator.name, self.dtype, results, shapes)


def measure(trial: Trial, framework: Framework, report: Report) -> None:
    """Run one trial and report the metrics of `catalog.due` as soon as each is known.

    One value per call for times and rates, warm-up first; one value for errors and counts, block by
    block for the heat map. The results that are checked are those of the last timed calls.

    Args:
        trial: One whose subject is an operator.
        framework: Where it runs.
        report: Where the values go.

    Raises:
        MemoryError: It would not fit; tried nothing.
        ValueError: The framework lacks the operator or dtype, or returned another shape or dtype.
    """
    name, dtype, context = trial.subject, trial.dtype, trial.context
    operator, subject = operators.find(name, trial.source)
    if reason := catalog.refusal(subject, framework.name, dtype, context.device):
        raise ValueError(reason)
    sizes = subject.complete(trial.parameters)
    differentiates = catalog.FRAMEWORKS[framework.name].differentiates
    capacity.fits(operator, sizes, dtype, framework, differentiates)
    prepared = _Prepared(
        operator,
        sizes,
        dtype,
        context.seed,
        trial.warmup,
        trial.warmup + trial.repetitions,
        framework,
        operator.inputs(sizes, dtype, context.seed),
        operator.upstream(sizes, dtype, context.seed),
    )
    due = [facts.name for facts in catalog.due(subject, framework.name, context.device)]
    with framework.arithmetic(dtype):
        series = chain(_forward(prepared), _backward(prepared) if differentiates else ())
        report_due(series, due, report)


def _forward(trial: _Prepared) -> Iterator[Series]:
    operator, sizes = trial.operator, trial.sizes
    call, arguments = trial.native.operation(operator, sizes, trial.tensors)
    watch = memory.watch(trial.framework)
    watch.reset_peak()
    seconds, results = time(trial.framework, call, arguments, trial.calls)
    peak = watch.peak()
    yield Series("forward_time", seconds, trial.warmup)
    yield Series("peak_memory_bytes", (float(peak),))
    for metric, amount in (
        ("forward_flops", operator.flops(sizes)),
        ("forward_bytes", operator.bytes(sizes, trial.dtype)),
    ):
        yield Series(metric, (float(amount),))
        # a call shorter than the clock's step is taken to last one
        rates = tuple(amount / max(duration, 1e-9) for duration in seconds)
        yield Series(f"{metric}_per_second", rates, trial.warmup)
    outputs = trial.arrays(results, operator.outputs(sizes))
    same = repeatable(trial.framework, call, arguments, outputs)
    yield Series("repeatable", (float(same),))
    reference = operators.reference(operator, sizes, trial.inputs, trial.dtype)
    bounds = operators.bounds(operator, sizes, trial.inputs, trial.dtype)
    for metric, values in errors.errors(outputs, reference, bounds).items():
        yield Series(metric, values)


def _backward(trial: _Prepared) -> Iterator[Series]:
    operator, sizes, framework = trial.operator, trial.sizes, trial.framework
    tensors = trial.tensors
    wrt = operator.wrt(sizes)
    upstream = tuple(framework.from_numpy(array, trial.dtype) for array in trial.upstream)
    gradient = require(trial.native.gradient, framework.name, "differentiate")
    call, arguments = gradient(operator, sizes, tensors, wrt, upstream)
    seconds, results = time(framework, call, arguments, trial.calls)
    yield Series("backward_time", seconds, trial.warmup)
    gradients = trial.arrays(results, (trial.inputs[index].shape for index in wrt))
    formula = (operator, sizes, trial.inputs, trial.upstream)
    right = operators.reference_gradients(*formula, trial.dtype)
    bounds = operators.gradient_bounds(*formula, trial.dtype)
    yield Series("grad_l2_error_ratio", (errors.worst_ratio(gradients, right, bounds),))
    check = errors.directional(*formula, gradients, bounds, trial.seed)
    yield Series("gradient_check", (check,))
