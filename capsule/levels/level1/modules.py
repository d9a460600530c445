"""One Level 1 trial of a user's `torch.nn.Module`: time it, hold it to a reference.

As of other networks, times are those of the case's batch, and held to the reference are the first
and the last timed result and one for other values in the same tensors; of a larger batch than that
may be, one of fewer examples is run beside it. Gradients are held at a few examples beside. The
reference is the module in float64; it is torch's own, so what is judged is what its operations lose
in the dtype, and not whether the module is what its author meant. Whether the gradients are those
of the loss, central differences tell: of the gradients in the dtype, and of the reference's, which
no rounding of the dtype excuses.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Callable

from .. import catalog
from ..catalog.modules import Module, Sample
from ..frameworks import Framework
from ..frameworks.base import Call, InferringModule, require, require_shape
from ..graphs import values
from ..graphs.graph import Graph, Input
from ..instruments import errors, memory, roofs, tensor_cores
from ..instruments.between import FRESH
from ..instruments.calls import (
    Series,
    Timed,
    arrays,
    repeatable,
    report_due,
    tell_times,
    time_and_keep,
    typical,
)
from ..job import Trial
from ..operators import ARITHMETIC, several
from ..report import Report
from . import check, sampled, served

TRAINED = 4
"""Examples whose gradients are: normalization by a batch of two leaves of each number a sign."""

Arrays = Mapping[str, Any]


def measure(
    trial: Trial,
    framework: Framework,
    report: Report,
    subject: catalog.Network,
    facts: Module,
    checked: int,
) -> None:
    """Run one trial; see `level1.measure`.

    Args:
        trial: Trial of a module.
        framework: Where it runs.
        report: Where the values go.
        subject: The module's entry.
        facts: What its file says.
        checked: Most examples whose outputs are held to the reference.

    Raises:
        FrameworkError: The framework has no modules.
        ImpossibleRateError: It was faster than this machine is; all metrics were reported.
        ValueError: The module is not what it has to be, or has no reference.
    """
    import numpy

    dtype, seed = trial.dtype, trial.context.seed
    assert trial.source is not None
    batch = subject.complete(trial.parameters)["batch"]
    networks = require(framework.networks, framework.name, "run networks")
    start = require(networks.inferring, framework.name, "run torch.nn.Modules")
    like = framework.from_numpy(numpy.zeros(1, ARITHMETIC[dtype].stored), dtype)
    with framework.arithmetic(dtype):
        module = start(Path(trial.source), seed, like)
        due = [one.name for one in catalog.due(subject, framework.name, trial.context.device)]
        due += served.metrics(trial.serving)
        measured = _Measured(trial, framework, module, facts, batch, checked)
        trains = "training_time" in due
        report_due(measured.series(trains=trains), due, report)
        report.off_tensor_cores = measured.find_plain_kernel(trains=trains)
        flops = module.fewest_flops(measured.place(measured.draw(facts.operands, batch)))
    roofs.require_possible(framework, trial.subject, dtype, flops, measured.seconds[0])


@dataclass(frozen=True)
class _Measured:
    """Parts of one trial.

    Attributes:
        seconds: Duration of a call of inference: the median of the timed calls.
    """

    trial: Trial
    framework: Framework
    module: InferringModule
    facts: Module
    batch: int
    checked: int
    seconds: list[float] = field(default_factory=list)

    def series(self, *, trains: bool) -> Iterator[Series]:
        """Yield all metrics."""
        warmup, taken = self.trial.warmup, self.facts.operands
        drawn = self.draw(taken, self.batch)
        placed = self.place(drawn)
        call = self.module.inference(placed)
        timed = self._time(call, self._keep)
        peak, reached = timed.peak, [timed.first, self._keep(timed.last)]
        self.seconds.append(median(timed.seconds[timed.warmup :]))
        yield from tell_times("inference", timed, self.batch, self.trial.warmup)
        by_layer = self.module.layers(placed, self._clock)
        yield Series("layer_time", tuple(by_layer))
        yield Series("framework_overhead", (self.seconds[0] / max(sum(by_layer), 1e-9) - 1,))
        yield Series("parameters", (float(self.module.parameters),))
        if self.trial.serving:
            others = [self.draw(taken, self.batch, FRESH + more) for more in range(2)]
            room = served.Room(self.framework, call, [placed], [[one] for one in (drawn, *others)])
            yield from room.serve(self.trial.serving, warmup, self.batch, self.trial.context.seed)
            reached.append(self._keep(several(room.answer)))
        same = yield from self._check(drawn, placed, call, reached)
        if trains:
            trained, peak = yield from self._train()
            same &= trained
        yield Series("peak_memory_bytes", (float(peak),))
        yield Series("repeatable", (float(same),))

    def _check(
        self, drawn: Arrays, placed: Arrays, call: Call, reached: Sequence[tuple[Any, ...]]
    ) -> Generator[Series, None, bool]:
        """Yield outputs, those reached if they can be held; returns whether they are the same
        again.
        """
        dtype, seed = self.trial.dtype, self.trial.context.seed
        timed = drawn, placed, call, reached
        if self.batch > self.checked:
            drawn = self.draw(self.facts.operands, self.checked)
            placed = self.place(drawn)
            call = self.module.inference(placed)
            reached = [self._call(call)]
        right, bounds = self.module.right(drawn, dtype, seed)
        same = repeatable(self.framework, *call, reached[-1])
        ratios = [self._ratio(results, right, bounds) for results in reached]

        def judge(outputs: tuple[Any, ...], exact: tuple[Any, ...]) -> float:
            self._require_shapes(outputs, exact)
            return check.hold_again(outputs, exact, right, bounds, gradients_from=len(right))

        others = self._refill(placed, self.facts.operands, min(self.batch, self.checked))
        exact, again = self.module.exact(others), self._call(call)
        changes = check.is_moved(exact, right, dtype)
        ratios += [judge(again, exact), sampled.judge_change(reached[-1], again) * changes]
        if self.batch > self.checked:
            ratios.extend(self._hold_some(*timed, judge, changes=changes))
        reported = errors.errors(reached[-1], right, bounds)
        reported["l2_error_ratio"] = (errors.largest(ratios),)
        for metric, norms in reported.items():
            yield Series(metric, norms)
        return same

    def _hold_some(
        self,
        drawn: Arrays,
        placed: Arrays,
        call: Call,
        reached: Sequence[tuple[Any, ...]],
        judge: sampled.Judge,
        *,
        changes: bool,
    ) -> Iterator[float]:
        """Yield errors over their bounds of some examples of the timed batch.

        With them, what it tells where other values change what is due.
        """

        def compute(inputs: Arrays, _: int) -> tuple[Any, ...]:
            return self.module.exact(inputs)

        how = self.batch, self.checked
        yield sampled.hold(drawn, *how, reached, compute, judge)
        others = self._refill(placed, self.facts.operands, self.batch)
        again = self._call(call)
        yield sampled.hold(others, *how, [again], compute, judge)
        if changes:
            yield sampled.judge_change(reached[-1], again)

    def _refill(self, placed: Arrays, samples: Mapping[str, Sample], batch: int) -> dict[str, Any]:
        """Return other values, put into the same tensors."""
        fill = require(self.framework.fill, self.framework.name, "overwrite the values of tensors")
        others = self.draw(samples, batch, FRESH)
        for name, array in others.items():
            fill(placed[name], array)
        return others

    def _ratio(
        self, results: tuple[Any, ...], right: tuple[Any, ...], bounds: tuple[float, ...]
    ) -> float:
        self._require_shapes(results, right)
        return errors.worst_ratio(results, right, bounds)

    def _require_shapes(self, results: tuple[Any, ...], right: tuple[Any, ...]) -> None:
        for result, value in zip(results, right):
            require_shape(self.trial.subject, result.shape, value.shape)

    def _train(self) -> Generator[Series, None, tuple[bool, int]]:
        """Yield loss and gradients; returns whether they are the same again, and the peak of
        memory.
        """
        trained = self.module.differentiation()
        dtype, seed = self.trial.dtype, self.trial.context.seed
        placed = self.place(self.draw(self.facts.inputs, self.batch))
        step = trained.training(placed)
        # what it comes to depends on what it draws
        timed = self._time(step, len)
        yield from tell_times("training", timed, self.batch, self.trial.warmup)
        self._refill(placed, self.facts.inputs, self.batch)
        kept = sampled.judge_change(*map(self._read, (timed.last, several(step[0](*step[1])))))
        checked = self.draw(self.facts.inputs, TRAINED)
        right, bounds = trained.right(checked, dtype, seed)
        call, arguments = trained.rehearse(self.place(checked), seed)
        results = self._arrays(call(*arguments), right)
        yield Series("loss", (float(results[0]),))
        ratios = [kept, errors.worst_ratio(results, right, bounds)]
        yield Series("grad_l2_error_ratio", (errors.largest(ratios),))

        def lose(moved: list[Any]) -> tuple[float, float]:
            return trained.lose(checked, seed, moved)

        label = f"capsule-direction-1\n{self.trial.subject}\n{seed}\n"
        by, gradients, limits = trained.parameters(), results[1:], bounds[1:]
        worst = errors.derivatives(lose, by, gradients, limits, check.step, label)
        # those in float32 hold for any weights that it has, such as those of 16 bits
        narrow = bounds if dtype == "float32" else trained.right(checked, "float32", seed)[1]
        exact = _check_reference(lose, by, right[1:], narrow, label)
        yield Series("gradient_check", (errors.largest((worst, exact)),))
        if catalog.FRAMEWORKS[self.framework.name].nodes:
            ratio, share = trained.hold(checked, dtype, seed)
            yield Series("layer_backward_time", tuple(trained.layers(placed, self._clock)))
            yield Series("node_error_ratio", (ratio,))
            yield Series("bound_share", (share,))
        return repeatable(self.framework, call, arguments, results), timed.peak

    def find_plain_kernel(self, *, trains: bool) -> str:
        """Return a kernel of a product, of one call each, if none of them used tensor cores."""

        def run() -> None:
            placed = self.place(self.draw(self.facts.operands, self.batch))
            self._call(self.module.inference(placed))
            if trains:
                placed = self.place(self.draw(self.facts.inputs, self.batch))
                function, arguments = self.module.differentiation().training(placed)
                function(*arguments)

        return tensor_cores.look(self.framework, self.trial.dtype, run)

    def draw(self, samples: Mapping[str, Sample], batch: int, further: int = 0) -> dict[str, Any]:
        """Return inputs of so many examples, by the rule of all networks; others with `further`."""
        drawn = {
            name: Input((batch, *sample.shape), sample.below) for name, sample in samples.items()
        }
        graph = Graph(self.trial.subject, drawn, {}, (), (), None)
        return values.inputs(graph, self.trial.dtype, self.trial.context.seed + further)

    def place(self, drawn: Arrays) -> dict[str, Any]:
        """Return the same on the device, in memory of its own."""
        dtype = self.trial.dtype
        return {
            name: self.framework.from_numpy(array.copy(), dtype) for name, array in drawn.items()
        }

    def _time(self, call: Call, keep: Callable[[tuple[Any, ...]], Any]) -> Timed:
        """Return seconds of each call, the peak of memory, and the first result as `keep` makes
        it.
        """
        function, arguments = call
        function(*arguments)  # what is compiled, is compiled now
        warmup, watch = self.trial.warmup, memory.watch(self.framework)
        counts = warmup, warmup + self.trial.repetitions
        return time_and_keep(self.framework, function, arguments, *counts, keep, watch)

    def _read(self, results: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(self.framework.to_numpy, results))

    def _call(self, call: Call) -> tuple[Any, ...]:
        function, arguments = call
        return self._keep(several(function(*arguments)))

    def _keep(self, results: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return results as arrays of their own, once they are of the dtype."""
        shapes = [one.shape for one in results]
        name, dtype = self.trial.subject, self.trial.dtype
        return tuple(array.copy() for array in arrays(self.framework, name, dtype, results, shapes))

    def _clock(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
        return typical(self.framework, function, arguments, self.trial.repetitions)

    def _arrays(self, results: Any, right: tuple[Any, ...]) -> tuple[Any, ...]:
        shapes = [array.shape for array in right]
        name, dtype = self.trial.subject, self.trial.dtype
        return arrays(self.framework, name, dtype, several(results), shapes)


def _check_reference(
    lose: Callable[[list[Any]], tuple[float, float]],
    by: list[Any],
    gradients: tuple[Any, ...],
    bounds: tuple[float, ...],
    label: str,
) -> float:
    """Return `errors.derivatives` of the reference's gradients, with bounds of float64.

    Bounds are sums of unit roundoffs times what does not depend on the dtype, so those of float64
    are those of float32 times the quotient of both roundoffs. No type has more bits to compute them
    in.

    Args:
        lose: See `errors.derivatives`.
        by: Likewise.
        gradients: The reference's, in float64.
        bounds: Of the loss and of each gradient, in float32.
        label: Names the random direction.
    """
    share = errors.ROUNDOFF / ARITHMETIC["float32"].storage
    loss, *limits = (share * bound for bound in bounds)
    # the loss and the moved parameters are rounded, too
    noise = loss + 64 * errors.ROUNDOFF * lose(by)[1]
    for gradient, array in zip(gradients, by):
        noise += 4 * errors.ROUNDOFF * float((abs(gradient) * abs(array)).sum())
    return errors.derivatives(lose, by, gradients, tuple(limits), check.step, label, noise)
