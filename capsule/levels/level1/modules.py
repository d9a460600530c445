"""One Level 1 trial of a user's `torch.nn.Module`: time its inference, hold it to a reference.

As of other networks, times are those of the case's batch, and results are held to the reference for
`checked` examples. The reference is the module in float64; it is torch's own, so what is judged is
what its operations lose in the dtype, and not whether the module is what its author meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import catalog
from ..catalog.modules import Sample
from ..frameworks import Framework
from ..frameworks.base import InferringModule, require
from ..graphs import values
from ..graphs.graph import Graph, Input
from ..instruments import errors, memory
from ..instruments.calls import Series, arrays, repeatable, report_due, time
from ..job import Trial
from ..operators import ARITHMETIC, several
from ..report import Report
from . import served


def measure(
    trial: Trial,
    framework: Framework,
    report: Report,
    subject: catalog.Network,
    inputs: Mapping[str, Sample],
    checked: int,
) -> None:
    """Run one trial; see `level1.measure`.

    Args:
        trial: Of a module.
        framework: Where it runs.
        report: Where the values go.
        subject: The module's entry.
        inputs: What its `forward` takes, in order.
        checked: Examples whose results are held to the reference.

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
        due = [facts.name for facts in catalog.due(subject, framework.name, trial.context.device)]
        due += served.metrics(trial.serving)
        made = (_draw(trial, inputs, count) for count in (batch, checked))
        report_due(_series(trial, framework, module, *made), due, report)


def _draw(trial: Trial, inputs: Mapping[str, Sample], batch: int) -> dict[str, Any]:
    """Inputs of so many examples, by the rule of all networks."""
    drawn = {name: Input((batch, *sample.shape), sample.below) for name, sample in inputs.items()}
    graph = Graph(trial.subject, drawn, {}, (), (), None)
    return values.inputs(graph, trial.dtype, trial.context.seed)


def _series(
    trial: Trial,
    framework: Framework,
    module: InferringModule,
    timed: Mapping[str, Any],
    checked: Mapping[str, Any],
) -> Iterator[Series]:
    dtype, warmup = trial.dtype, trial.warmup

    def place(drawn: Mapping[str, Any]) -> dict[str, Any]:
        return {name: framework.from_numpy(array, dtype) for name, array in drawn.items()}

    placed = place(timed)
    call, arguments = module.inference(placed)
    call(*arguments)  # what is compiled, is compiled now
    watch = memory.watch(framework)
    watch.reset_peak()
    seconds = time(framework, call, arguments, warmup + trial.repetitions)[0]
    peak = watch.peak()
    batch = len(next(iter(timed.values())))
    yield Series("inference_time", seconds, warmup)
    rates = tuple(batch / max(duration, 1e-9) for duration in seconds)
    yield Series("inference_throughput", rates, warmup)
    yield Series("peak_memory_bytes", (float(peak),))
    yield Series("parameters", (float(module.parameters),))
    if trial.serving:
        room = served.Room(framework, (call, arguments), [placed], [[timed]])
        yield from room.serve(trial.serving, warmup, batch, trial.context.seed)
    right, bounds = module.right(checked, dtype, trial.context.seed)
    call, arguments = module.inference(place(checked))
    shapes = [array.shape for array in right]
    results = arrays(framework, trial.subject, dtype, several(call(*arguments)), shapes)
    for metric, norms in errors.errors(results, right, bounds).items():
        yield Series(metric, norms)
    same = repeatable(framework, call, arguments, results)
    yield Series("repeatable", (float(same),))
