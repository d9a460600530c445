"""One Level 1 trial: make a network, time it whole and node by node, hold it to a reference.

Times, throughputs and memory are those of the case's batch. Results are held to the reference at a
batch of `CHECKED`, with the same parameters, so that a large case can be afforded. With a limit of
memory both run in parts; see `microbatch`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any, Callable

from .. import catalog, networks
from ..frameworks import Framework
from ..frameworks.base import Networks, require
from ..graphs import structure, values
from ..graphs.graph import Graph, Node
from ..instruments import capacity, errors, memory
from ..instruments.calls import Series, arrays, repeatable, report_due, time
from ..job import Trial
from ..operators import ARITHMETIC, several
from ..operators.base import Call
from ..report import Report
from . import check, layers, microbatch, modules
from .microbatch import Cost, Part

CHECKED = 2
"""Examples of the minibatch whose results are held to the reference."""

TRIED = 3
"""Timed calls of a size of parts that may be chosen."""


@dataclass(frozen=True)
class _Prepared:
    """A trial with everything made that it needs.

    Attributes:
        graph: Builds the network for a batch, once.
        batch: Of the case.
        parameters: Numpy arrays by name.
        tensors: The same on the device.
        trains: Whether training is measured.
    """

    framework: Framework
    graph: Callable[[int], Graph]
    batch: int
    dtype: str
    seed: int
    warmup: int
    calls: int
    trains: bool
    parameters: Mapping[str, Any]
    tensors: Mapping[str, Any]

    @property
    def native(self) -> Networks:
        """How the framework runs networks."""
        return require(self.framework.networks, self.framework.name, "run networks")

    def parts(self, sizes: Sequence[int]) -> tuple[Part, ...]:
        """A minibatch, made from the seed and split."""
        whole = self.graph(sum(sizes))
        inputs = values.inputs(whole, self.dtype, self.seed)
        return microbatch.split(whole, {size: self.graph(size) for size in sizes}, inputs, sizes)

    def place(self, part: Part) -> dict[str, Any]:
        """A part's inputs and the parameters, on the device."""
        inputs = {
            name: self.framework.from_numpy(array, self.dtype)
            for name, array in part.inputs.items()
        }
        return {**inputs, **self.tensors}

    def call(self, parts: Sequence[Part]) -> Call:
        """Training, or inference where there is none: what the limit of memory is for."""
        return self.training(parts) if self.trains else self.inference(parts)

    def inference(self, parts: Sequence[Part]) -> Call:
        """What yields the outputs of each part."""
        read = _read(parts[0].graph.inference)
        return microbatch.inference(self._calls(self.native.inference, parts, read))

    def training(self, parts: Sequence[Part]) -> Call:
        """What yields the minibatch's loss and gradients."""
        import numpy

        stored, read = ARITHMETIC[self.dtype].stored, _read(parts[0].graph.training)
        shares = [
            self.framework.from_numpy(numpy.array(part.share, stored), self.dtype) for part in parts
        ]
        train = require(self.native.training, self.framework.name, "differentiate")
        return microbatch.training(self._calls(train, parts, read), shares)

    def _calls(
        self,
        make: Callable[[Graph, Mapping[str, Any]], Call],
        parts: Sequence[Part],
        read: set[str],
    ) -> list[Call]:
        """A call for each part; those of one size share what was compiled, where they can."""
        calls: list[Call] = []
        firsts: dict[int, tuple[Call, list[Any]]] = {}
        for part in parts:
            tensors = self.place(part)
            inputs = [tensors[name] for name in part.inputs if name in read]
            first = firsts.get(id(part.graph))
            call = microbatch.again(*first, inputs) if first else None
            if call is None:
                call = make(part.graph, tensors)
            firsts.setdefault(id(part.graph), (call, inputs))
            calls.append(call)
        return calls


def measure(trial: Trial, framework: Framework, report: Report) -> None:
    """Run one trial and report the metrics of `catalog.due` as soon as each is known.

    One value per call for times and throughputs, warm-up first; one value per node for
    `layer_time`; else one value. Where a minibatch is split, times are those of all its parts, of a
    node too. `peak_memory_bytes` is that of the timed training calls, of inference where there is
    no training.

    Args:
        trial: One whose subject is a network.
        framework: Where it runs.
        report: Where the values go.

    Raises:
        MemoryError: It would not fit, or no example fits into the limit that the case sets.
        ValueError: The framework lacks the dtype, or returned another shape or dtype; or the
            network cannot be split.
    """
    name, source, dtype = trial.subject, trial.source, trial.dtype
    seed, device = trial.context.seed, trial.context.device
    subject = networks.find(name, source, trains=trial.trains)
    if reason := catalog.refusal(subject, framework.name, dtype, device):
        raise ValueError(reason)
    taken = networks.read_module(Path(source)) if source and source.endswith(".py") else None
    if taken is not None:
        modules.measure(trial, framework, report, subject, taken, CHECKED)
        return
    sizes = subject.complete(trial.parameters)
    due = [facts.name for facts in catalog.due(subject, framework.name, device)]
    trains = "training_time" in due
    limit, batch = sizes["limit_mib"] * microbatch.MIB, sizes["batch"]

    @cache
    def graph(batch: int) -> Graph:
        return networks.build(name, {**sizes, "batch": batch}, source)

    if trains:
        _require_derivatives(graph(CHECKED))
    if limit:
        if not catalog.reports_memory(framework.name, device):
            raise ValueError(
                f"{framework.name} does not report its memory use, so limit_mib cannot be enforced"
            )
        microbatch.check_divisible(graph(1))
    capacity.network_fits(graph(1 if limit else batch), graph(CHECKED), dtype, framework, trains)
    parameters = values.parameters(graph(CHECKED), dtype, seed)
    prepared = _Prepared(
        framework=framework,
        graph=graph,
        batch=batch,
        dtype=dtype,
        seed=seed,
        warmup=trial.warmup,
        calls=trial.warmup + trial.repetitions,
        trains=trains,
        parameters=parameters,
        tensors={key: framework.from_numpy(array, dtype) for key, array in parameters.items()},
    )
    with framework.arithmetic(dtype):
        parts = _choose(prepared, limit) if limit else (batch,)
        timed = _time(prepared, prepared.parts(parts))
        checked = _check(prepared, (1,) * CHECKED if limit else (CHECKED,))
        report_due(chain(timed, checked), due, report)


def _choose(trial: _Prepared, limit: int) -> tuple[int, ...]:
    """Sizes of the parts that the minibatch is run in."""
    watch = memory.watch(trial.framework)

    def cost(size: int) -> Cost:
        if size == 1:  # the first: what is done but once counts for no size
            call, arguments = trial.call(trial.parts((1,)))
            call(*arguments)
        # parts that follow another one keep its gradients meanwhile
        parts = trial.parts((size,) if size == trial.batch else (size, size))
        call, arguments = trial.call(parts)
        watch.reset_peak()
        seconds = time(trial.framework, call, arguments, TRIED)[0]
        return Cost(median(seconds) / len(parts), watch.peak())

    def peak(sizes: tuple[int, ...]) -> int:
        call, arguments = trial.call(trial.parts(sizes))
        watch.reset_peak()
        time(trial.framework, call, arguments, 1)
        return watch.peak()

    trained = trial.graph(1).trainable if trial.trains else ()
    least = ARITHMETIC[trial.dtype].bytes * sum(trial.parameters[name].size for name in trained)
    return microbatch.choose(trial.batch, limit, least, cost, peak)


def _time(trial: _Prepared, parts: Sequence[Part]) -> Iterator[Series]:
    framework, graph = trial.framework, trial.graph(trial.batch)
    watch = memory.watch(framework)
    call, arguments = trial.inference(parts)
    watch.reset_peak()
    seconds = time(framework, call, arguments, trial.calls)[0]
    peak = watch.peak()
    yield Series("inference_time", seconds, trial.warmup)
    yield Series("inference_throughput", _rates(trial.batch, seconds), trial.warmup)
    by_layer = _layers(trial, parts)
    yield Series("layer_time", by_layer)
    overhead = median(seconds[trial.warmup :]) / sum(by_layer) - 1
    yield Series("framework_overhead", (overhead,))
    if trial.trains:
        call, arguments = trial.training(parts)
        watch.reset_peak()
        seconds = time(framework, call, arguments, trial.calls)[0]
        peak = watch.peak()
        yield Series("training_time", seconds, trial.warmup)
        yield Series("training_throughput", _rates(trial.batch, seconds), trial.warmup)
        yield Series("micro_batches", (float(len(parts)),))
    yield Series("peak_memory_bytes", (float(peak),))
    count = sum(trial.parameters[name].size for name in graph.trainable)
    yield Series("parameters", (float(count),))
    flops = sum(structure.load(node.operator).flops(node.sizes) for node in graph.inference)
    yield Series("forward_flops", (float(flops),))


def _layers(trial: _Prepared, parts: Sequence[Part]) -> tuple[float, ...]:
    """Seconds of each node of inference, of all parts together."""
    calls = trial.calls - trial.warmup
    firsts = {id(part.graph): part for part in parts}
    counts = Counter(id(part.graph) for part in parts)
    totals = [0.0] * len(parts[0].graph.inference)
    for key, part in firsts.items():
        tensors = trial.place(part)
        seconds = layers.seconds(part.graph, tensors, trial.framework, trial.dtype, calls)
        totals = [total + counts[key] * more for total, more in zip(totals, seconds)]
    return tuple(totals)


def _check(trial: _Prepared, sizes: Sequence[int]) -> Iterator[Series]:
    parts = trial.parts(sizes)
    (whole,) = trial.parts((sum(sizes),))
    name, framework, dtype = whole.graph.name, trial.framework, trial.dtype
    due = check.right(parts, whole, trial.parameters, dtype, trial.seed, trial.trains)
    call, arguments = trial.inference(parts)
    shapes = chain(*(_shapes(part.graph) for part in parts))
    types = [one for part in parts for one in _types(part.graph)]
    results = arrays(framework, name, dtype, several(call(*arguments)), shapes, types)
    same = repeatable(framework, call, arguments, results)
    outputs = _join(results, len(parts))
    for metric, norms in errors.errors(outputs, due.outputs, due.output_bounds).items():
        yield Series(metric, norms)
    if trial.trains:
        call, arguments = trial.training(parts)
        trained = [trial.parameters[key].shape for key in whole.graph.trainable]
        results = arrays(framework, name, dtype, several(call(*arguments)), [(), *trained])
        same = same and repeatable(framework, call, arguments, results)
        yield Series("loss", (float(results[0]),))
        ratio = errors.worst_ratio(results, due.training, due.training_bounds)
        yield Series("grad_l2_error_ratio", (ratio,))
        run_in = check.separate(parts, whole)
        limits = due.training_bounds[1:]
        worst = check.gradient_check(run_in, trial.parameters, results[1:], limits, trial.seed)
        yield Series("gradient_check", (worst,))
    yield Series("repeatable", (float(same),))


def _read(nodes: Iterable[Node]) -> set[str]:
    """Names of all that nodes take."""
    return {name for node in nodes for name in node.inputs}


def _shapes(graph: Graph) -> list[tuple[int, ...]]:
    """Of the outputs."""
    of = {node.name: node.shape for node in graph.nodes}
    return [of[name] for name in graph.outputs]


def _types(graph: Graph) -> list[str | None]:
    """Of the outputs."""
    of = {node.name: node.type for node in graph.nodes}
    return [of[name] for name in graph.outputs]


def _require_derivatives(graph: Graph) -> None:
    """See that a network can be trained.

    Raises:
        ValueError: One of its nodes has no derivative here.
    """
    for node in graph.training:
        if node.operator == structure.ONNX:
            raise ValueError(
                f"{graph.name} cannot be trained: capsule knows no derivative of {node.name}"
                f" ({node.sizes['kind']}); without trains its inference is measured"
            )


def _join(results: tuple[Any, ...], parts: int) -> tuple[Any, ...]:
    """Outputs of the minibatch, of those of its parts one after the other."""
    import numpy

    count = len(results) // parts
    return tuple(numpy.concatenate(results[index::count]) for index in range(count))


def _rates(batch: int, seconds: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(batch / max(duration, 1e-9) for duration in seconds)
