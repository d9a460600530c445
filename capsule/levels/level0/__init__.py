"""One Level 0 trial: make inputs, time the native operation, hold its results to a reference.

Held are the results of the first and of the last timed call and, so that nothing that was kept or
put off passes for computed, those of one more call, for other values in the same tensors. Where a
framework's tensors stay as they are, and for what a user's file defines, which may have packed its
operands before, that call is made anew of other tensors. These values, and those of a call at the
catalogue's odd sizes, are hard ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from statistics import median
from typing import Any, Callable

from .. import catalog, operators
from ..catalog import failures
from ..frameworks import Framework
from ..frameworks.base import Call, Operators, require
from ..frameworks.kernels import TellsKernels
from ..instruments import between, capacity, doubles, errors, memory, roofs, tensor_cores
from ..instruments.between import FRESH
from ..instruments.calls import (
    Series,
    Timed,
    arrays,
    make,
    repeatable,
    report_due,
    time_and_keep,
)
from ..instruments.doubles import Bring
from ..job import Trial
from ..operators import Due, Operator
from ..report import Report


@dataclass(frozen=True)
class _Prepared:
    """A trial with everything made that it needs, and the seconds of its timed forward calls."""

    operator: Operator
    sizes: Mapping[str, int]
    dtype: str
    seed: int
    warmup: int
    calls: int
    framework: Framework
    conditions: tuple[str, ...]
    bring: Bring
    inputs: tuple[Any, ...]
    upstream: tuple[Any, ...]
    seconds: list[float] = field(default_factory=list)

    @property
    def native(self) -> Operators:
        """Return the framework's runner of operators."""
        return self.framework.operators

    def place(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return arrays on the device, which may be filled there with others."""
        return tuple(self.framework.from_numpy(array.copy(), self.dtype) for array in values)

    def fill(self, tensors: tuple[Any, ...], values: tuple[Any, ...]) -> bool:
        """Put other values into tensors; False, and nothing done, where that tells nothing."""
        fill = self.framework.fill
        if fill is None or self.operator.natives is not None:
            return False
        for tensor, array in zip(tensors, values):
            fill(tensor, array)
        return True

    def before(
        self, tensors: tuple[Any, ...], draw: Callable[[int], tuple[Any, ...]]
    ) -> between.Before:
        """Return the preparation before each timed call.

        Args:
            tensors: Those that other values are put into.
            draw: Gives such values for a seed.

        Raises:
            ValueError: The sizes of the machine's caches are not known.
        """
        return between.prepare(
            self.conditions,
            self.calls,
            lambda further: self.fill(tensors, draw(self.seed + further)),
            self.framework,
        )

    def time(self, call: Call, before: between.Before) -> Timed:
        """Return timed calls of an operation, of a device's own time where it has a clock."""
        watch = memory.watch(self.framework)
        counts = self.warmup, self.calls
        return time_and_keep(self.framework, *call, *counts, self.keep, watch, before, alone=True)

    def keep(self, results: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return results as numpy arrays of their own, whatever they are."""
        return tuple(self.framework.to_numpy(result).copy() for result in results)

    def exact(self, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return arrays where the reference is computed."""
        return tuple(map(self.bring, arrays))

    def due(self, inputs: tuple[Any, ...]) -> tuple[Due, ...]:
        """Return the outputs that are due."""
        return operators.due(self.operator, self.sizes, self.exact(inputs), self.dtype)

    def due_gradients(self, upstream: tuple[Any, ...]) -> tuple[Due, ...]:
        """Return the gradients that are due."""
        how = self.operator, self.sizes, self.exact(self.inputs), self.exact(upstream)
        return operators.due_gradients(*how, self.dtype)

    def settle(self, results: tuple[Any, ...], due: tuple[Due, ...]) -> tuple[Any, ...]:
        """See `errors.settle`; they lie where the reference is computed."""
        return errors.settle(self.exact(results), due, self.dtype)

    def ratio(self, results: tuple[Any, ...], due: tuple[Due, ...]) -> float:
        """Return the largest error of an element over its bound."""
        return errors.worst_element(self.settle(results, due), due)

    def outputs(self, results: Any) -> tuple[Any, ...]:
        """Return results as numpy arrays of their own, once they have the shapes and the dtype
        due.
        """
        return self._arrays(results, self.operator.outputs(self.sizes))

    def gradients(self, results: Any) -> tuple[Any, ...]:
        """Return the same of gradients."""
        wrt = self.operator.wrt(self.sizes)
        return self._arrays(results, (self.inputs[index].shape for index in wrt))

    def at_odd_sizes(self) -> _Prepared | None:
        """Return the same with hard values at sizes that nothing divides; None where none are
        known.

        Options keep the values of the case, but for those that sizes have to go with.
        """
        operator, dtype = self.operator, self.dtype
        entry, seed = catalog.OPERATORS.get(operator.name), self.seed + FRESH
        if operator.natives is not None or entry is None or "odd" not in entry.cases:
            return None
        kept = {one.name: self.sizes[one.name] for one in entry.options if one.most is not None}
        ((_, point),) = entry.cases["odd"]
        sizes = entry.complete({**point, **kept})
        inputs = operator.hard_inputs(sizes, dtype, seed)
        upstream = operator.hard_upstream(sizes, dtype, seed)
        return replace(self, sizes=sizes, inputs=inputs, upstream=upstream)

    def run_forward(self, due: tuple[Due, ...]) -> float:
        """Return the largest error of an element over its bound, of one call."""
        call, arguments = self.native.operation(self.operator, self.sizes, self.place(self.inputs))
        return self.ratio(self.outputs(call(*arguments)), due)

    def run_backward(self, due: tuple[Due, ...]) -> float:
        """Return the same of gradients."""
        gradient = require(self.native.gradient, self.framework.name, "differentiate")
        tensors, upstream = self.place(self.inputs), self.place(self.upstream)
        wrt = self.operator.wrt(self.sizes)
        call, arguments = gradient(self.operator, self.sizes, tensors, wrt, upstream)
        return self.ratio(self.gradients(call(*arguments)), due)

    def _arrays(self, results: Any, shapes: Iterable[tuple[int, ...]]) -> tuple[Any, ...]:
        tensors = operators.several(results)
        reached = arrays(self.framework, self.operator.name, self.dtype, tensors, shapes)
        return tuple(array.copy() for array in reached)


def measure(trial: Trial, framework: Framework, report: Report) -> None:
    """Run one trial and report the metrics of `catalog.due` as soon as each is known.

    One value per call for times and rates, or per sample of a device's clock, warm-up first; one
    value for errors and counts, block by block for the heat map. Which results are checked says the
    module; all but the ratios by element are those of the last timed calls.

    Args:
        trial: One whose subject is an operator.
        framework: Where it runs.
        report: Where the values go.

    Raises:
        ImpossibleRateError: It was faster than this machine is; all metrics were reported.
        MemoryError: It would not fit; tried nothing.
        ValueError: The framework lacks the operator or dtype, or returned another shape or dtype.
    """
    name, dtype, context = trial.subject, trial.dtype, trial.context
    operator, subject = operators.find(name, trial.source)
    if reason := catalog.refusal(subject, framework.name, dtype, context.device):
        raise ValueError(reason)
    if reason := catalog.hindrance(subject, framework.name, trial.conditions):
        raise ValueError(reason)
    sizes = subject.complete(trial.parameters)
    differentiates = catalog.FRAMEWORKS[framework.name].differentiates
    reserve = between.reserve(trial.conditions, framework)
    fits = partial(capacity.fits, operator, sizes, dtype, framework, differentiates, reserve)
    formulas = (name,) if operator.natives is None else None
    bring = doubles.choose(framework, dtype, formulas, fits)
    prepared = _Prepared(
        operator,
        sizes,
        dtype,
        context.seed,
        trial.warmup,
        trial.warmup + trial.repetitions,
        framework,
        trial.conditions,
        bring,
        operator.inputs(sizes, dtype, context.seed),
        operator.upstream(sizes, dtype, context.seed),
    )
    due = [facts.name for facts in catalog.due(subject, framework.name, context.device)]
    with framework.arithmetic(dtype):
        both = _Both()
        backward = _backward(prepared, both) if differentiates else ()
        report_due(chain(_forward(prepared, both), backward, both.series()), due, report)
        report.off_tensor_cores = _find_plain_kernel(prepared, differentiates=differentiates)
        case = f"{name} {trial.case} in {dtype}"
        remarks = _name_kernels(prepared, case), doubles.describe(case, bring)
        report.remark = "; ".join(filter(None, remarks))
    middle = median(prepared.seconds)
    if trial.roofline:
        work = operator.flops(sizes), operator.bytes(sizes, dtype)
        roofline = roofs.series(framework, dtype, context.threads, work, middle)
        report_due(roofline, [facts.name for facts in catalog.ROOFLINE_METRICS], report)
    # of what a file defines its author counts the operations, and an algorithm may need fewer
    if operator.natives is None:
        roofs.require_possible(framework, name, dtype, roofs.fewest(operator, sizes), middle)


@dataclass
class _Both:
    """Combined results of forward and backward runs.

    Attributes:
        same: True if further calls yielded the bits of the last timed one.
        once: Seconds until the first result was there.
    """

    same: bool = True
    once: float = 0.0

    def series(self) -> Iterator[Series]:
        """Yield the metrics of both."""
        yield Series("compile_time", (self.once,))
        yield Series("repeatable", (float(self.same),))


def _forward(trial: _Prepared, both: _Both) -> Iterator[Series]:
    operator, sizes, dtype = trial.operator, trial.sizes, trial.dtype
    tensors = trial.place(trial.inputs)
    (call, arguments), once = make(lambda: trial.native.operation(operator, sizes, tensors))
    before = trial.before(tensors, lambda seed: operator.inputs(sizes, dtype, seed))
    timed = trial.time((call, arguments), before)
    seconds, warmup = timed.seconds, timed.warmup
    trial.seconds.extend(seconds[warmup:])
    both.once += once + timed.once
    yield Series("forward_time", seconds, warmup)
    yield Series("forward_latency", timed.latencies, trial.warmup)
    yield Series("peak_memory_bytes", (float(timed.peak),))
    for metric, amount in (
        ("forward_flops", operator.flops(sizes)),
        ("forward_bytes", operator.bytes(sizes, dtype)),
    ):
        yield Series(metric, (float(amount),))
        # a call shorter than the clock's step is taken to last one
        rates = tuple(amount / max(duration, 1e-9) for duration in seconds)
        yield Series(f"{metric}_per_second", rates, warmup)
    outputs = trial.outputs(timed.last)
    both.same &= repeatable(trial.framework, call, arguments, outputs)
    exact = trial.exact(trial.inputs)
    bounds = operators.bounds(operator, sizes, exact, dtype)
    due = operators.due(operator, sizes, exact, dtype)
    reference = tuple(one.value for one in due)
    settled = trial.settle(outputs, due)
    for metric, values in errors.errors(settled, reference, bounds).items():
        yield Series(metric, values)
    others = operator.hard_inputs(sizes, dtype, trial.seed + FRESH)
    if not trial.fill(tensors, others):
        call, arguments = trial.native.operation(operator, sizes, trial.place(others))
    again = trial.outputs(call(*arguments))
    due_again = trial.due(others)
    pairs = [(timed.first, due), (outputs, due), (again, due_again)]
    ratios = [trial.ratio(*pair) for pair in pairs]
    if odd := trial.at_odd_sizes():
        due_there = odd.due(odd.inputs)
        ratios.append(_try(trial.framework, partial(odd.run_forward, due_there)))
    yield Series("element_error_ratio", (errors.largest(ratios),))


def _backward(trial: _Prepared, both: _Both) -> Iterator[Series]:
    operator, sizes, framework, dtype = trial.operator, trial.sizes, trial.framework, trial.dtype
    wrt, upstream = operator.wrt(sizes), trial.place(trial.upstream)
    gradient = require(trial.native.gradient, framework.name, "differentiate")
    tensors = trial.place(trial.inputs)
    (call, arguments), once = make(lambda: gradient(operator, sizes, tensors, wrt, upstream))
    before = trial.before(upstream, lambda seed: operator.upstream(sizes, dtype, seed))
    timed = trial.time((call, arguments), before)
    both.once += once + timed.once
    yield Series("backward_time", timed.seconds, timed.warmup)
    yield Series("backward_latency", timed.latencies, trial.warmup)
    gradients = trial.gradients(timed.last)
    both.same &= repeatable(framework, call, arguments, gradients)
    formula = (operator, sizes, trial.exact(trial.inputs), trial.exact(trial.upstream))
    bounds = operators.gradient_bounds(*formula, dtype)
    due = operators.due_gradients(*formula, dtype)
    right = tuple(one.value for one in due)
    settled = trial.settle(gradients, due)
    yield Series("grad_l2_error_ratio", (errors.worst_ratio(settled, right, bounds),))
    check = errors.directional(*formula, settled, bounds, trial.seed)
    yield Series("gradient_check", (check,))
    others = operator.hard_upstream(sizes, dtype, trial.seed + FRESH)
    if not trial.fill(upstream, others):
        upstream = trial.place(others)
        call, arguments = gradient(operator, sizes, trial.place(trial.inputs), wrt, upstream)
    again = trial.gradients(call(*arguments))
    due_again = trial.due_gradients(others)
    pairs = [(timed.first, due), (gradients, due), (again, due_again)]
    ratios = [trial.ratio(*pair) for pair in pairs]
    if odd := trial.at_odd_sizes():
        due_there = odd.due_gradients(odd.upstream)
        ratios.append(_try(framework, partial(odd.run_backward, due_there)))
    yield Series("grad_element_error_ratio", (errors.largest(ratios),))


def _name_kernels(trial: _Prepared, case: str) -> str:
    """Return a sentence on what the framework chose among its kernels; empty where it tells
    nothing.
    """
    native = trial.native
    if not isinstance(native, TellsKernels):
        return ""
    chosen = native.kernels(trial.operator, trial.sizes, trial.place(trial.inputs))
    return f"{case} ran in {trial.framework.name} by {chosen}" if chosen else ""


def _find_plain_kernel(trial: _Prepared, *, differentiates: bool) -> str:
    """Return a kernel of a product, of one call each, if neither of them used tensor cores."""
    operator, sizes, native = trial.operator, trial.sizes, trial.native

    def run() -> None:
        call, arguments = native.operation(operator, sizes, trial.place(trial.inputs))
        call(*arguments)
        if differentiates:
            gradient = require(native.gradient, trial.framework.name, "differentiate")
            tensors, upstream = trial.place(trial.inputs), trial.place(trial.upstream)
            call, arguments = gradient(operator, sizes, tensors, operator.wrt(sizes), upstream)
            call(*arguments)

    dtype = trial.dtype if operator.typed else tensor_cores.EIGHT_BITS
    return tensor_cores.look(trial.framework, dtype, run)


def _try(framework: Framework, run: Callable[[], float]) -> float:
    """Return a ratio; `errors.ABSENT` where a framework refuses sizes that the operator has.

    An error that leaves the device unusable is none of sizes, and is passed on.
    """
    try:
        return run()
    except (ValueError, RuntimeError) as error:
        if failures.is_sticky(error):
            raise
        if framework.synchronize is not None:
            framework.synchronize()
        return errors.ABSENT
