"""One Level 1 trial of a user's `torch.nn.Module`: time it, hold it to a reference.

As of other networks, times are those of the case's batch, and results are held to the reference for
some examples. The reference is the module in float64; it is torch's own, so what is judged is what
its operations lose in the dtype, and not whether the module is what its author meant. Whether the
gradients are those of the loss, central differences tell.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Callable

from .. import catalog
from ..catalog.modules import Module, Sample
from ..frameworks import Framework
from ..frameworks.base import InferringModule, require
from ..graphs import values
from ..graphs.graph import Graph, Input
from ..instruments import errors, memory
from ..instruments.calls import Series, arrays, repeatable, report_due, time
from ..job import Trial
from ..operators import ARITHMETIC, several
from ..report import Report
from . import check, served

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
        trial: Of a module.
        framework: Where it runs.
        report: Where the values go.
        subject: The module's entry.
        facts: What its file says.
        checked: Examples whose outputs are held to the reference.

    Raises:
        FrameworkError: The framework has no modules.
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
        report_due(measured.series(trains="training_time" in due), due, report)


@dataclass(frozen=True)
class _Measured:
    """What one trial is made of."""

    trial: Trial
    framework: Framework
    module: InferringModule
    facts: Module
    batch: int
    checked: int

    def series(self, *, trains: bool) -> Iterator[Series]:
        """All metrics."""
        warmup, taken = self.trial.warmup, self.facts.operands
        drawn = self._draw(taken, self.batch)
        timed = self._place(drawn)
        call = self.module.inference(timed)
        seconds, peak = self._time(call)
        yield Series("inference_time", seconds, warmup)
        yield Series("inference_throughput", self._rates(seconds), warmup)
        by_layer = self.module.layers(timed, self._clock)
        yield Series("layer_time", tuple(by_layer))
        overhead = median(seconds[warmup:]) / max(sum(by_layer), 1e-9) - 1
        yield Series("framework_overhead", (overhead,))
        yield Series("parameters", (float(self.module.parameters),))
        if self.trial.serving:
            room = served.Room(self.framework, call, [timed], [[drawn]])
            seed = self.trial.context.seed
            yield from room.serve(self.trial.serving, warmup, self.batch, seed)
        same = yield from self._check()
        if trains:
            trained, peak = yield from self._train()
            same &= trained
        yield Series("peak_memory_bytes", (float(peak),))
        yield Series("repeatable", (float(same),))

    def _check(self) -> Generator[Series, None, bool]:
        """Outputs; returns whether they are the same again."""
        checked = self._draw(self.facts.operands, self.checked)
        right, bounds = self.module.right(checked, self.trial.dtype, self.trial.context.seed)
        call, arguments = self.module.inference(self._place(checked))
        results = self._arrays(call(*arguments), right)
        for metric, norms in errors.errors(results, right, bounds).items():
            yield Series(metric, norms)
        return repeatable(self.framework, call, arguments, results)

    def _train(self) -> Generator[Series, None, tuple[bool, int]]:
        """Loss and gradients; returns whether they are the same again, and the peak of memory."""
        trained = self.module.differentiation()
        dtype, seed = self.trial.dtype, self.trial.context.seed
        timed = self._place(self._draw(self.facts.inputs, self.batch))
        seconds, peak = self._time(trained.training(timed))
        yield Series("training_time", seconds, self.trial.warmup)
        yield Series("training_throughput", self._rates(seconds), self.trial.warmup)
        checked = self._draw(self.facts.inputs, TRAINED)
        right, bounds = trained.right(checked, dtype, seed)
        call, arguments = trained.rehearse(self._place(checked), seed)
        results = self._arrays(call(*arguments), right)
        yield Series("loss", (float(results[0]),))
        yield Series("grad_l2_error_ratio", (errors.worst_ratio(results, right, bounds),))

        def lose(moved: list[Any]) -> tuple[float, float]:
            return trained.lose(checked, seed, moved)

        label = f"capsule-direction-1\n{self.trial.subject}\n{seed}\n"
        by, gradients, limits = trained.parameters(), results[1:], bounds[1:]
        worst = errors.derivatives(lose, by, gradients, limits, check.step, label)
        yield Series("gradient_check", (worst,))
        if catalog.FRAMEWORKS[self.framework.name].nodes:
            ratio, share = trained.hold(checked, dtype, seed)
            yield Series("node_error_ratio", (ratio,))
            yield Series("bound_share", (share,))
        return repeatable(self.framework, call, arguments, results), peak

    def _draw(self, samples: Mapping[str, Sample], batch: int) -> dict[str, Any]:
        """Inputs of so many examples, by the rule of all networks."""
        drawn = {
            name: Input((batch, *sample.shape), sample.below) for name, sample in samples.items()
        }
        graph = Graph(self.trial.subject, drawn, {}, (), (), None)
        return values.inputs(graph, self.trial.dtype, self.trial.context.seed)

    def _place(self, drawn: Arrays) -> dict[str, Any]:
        dtype = self.trial.dtype
        return {name: self.framework.from_numpy(array, dtype) for name, array in drawn.items()}

    def _time(self, call: tuple[Any, ...]) -> tuple[tuple[float, ...], int]:
        """Seconds of each call, and the peak of memory."""
        function, arguments = call
        function(*arguments)  # what is compiled, is compiled now
        watch = memory.watch(self.framework)
        watch.reset_peak()
        calls = self.trial.warmup + self.trial.repetitions
        seconds = time(self.framework, function, arguments, calls)[0]
        return seconds, watch.peak()

    def _clock(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
        return median(time(self.framework, function, arguments, self.trial.repetitions)[0])

    def _rates(self, seconds: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(self.batch / max(duration, 1e-9) for duration in seconds)

    def _arrays(self, results: Any, right: tuple[Any, ...]) -> tuple[Any, ...]:
        shapes = [array.shape for array in right]
        name, dtype = self.trial.subject, self.trial.dtype
        return arrays(self.framework, name, dtype, several(results), shapes)
