"""One Level 1 trial: make a network, time it whole and node by node, hold it to a reference.

Times, throughputs and memory are those of the case's batch. Held to the reference are the results
of the first and of the last timed call, and those of one more call for other values in the same
tensors, so that nothing that was kept or put off passes for computed. Of a batch of more than
`CHECKED` that cannot be afforded: there one of `CHECKED` is run beside it, with the same
parameters. With a limit of memory both run in parts; see `microbatch`. Each node is held by itself,
forward and backward and element by element, where networks are not compiled as a whole.

Parameters are varied, see `values.varied_parameters`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from .. import catalog, networks
from ..catalog.serving import Serving
from ..frameworks import Framework
from ..frameworks.base import require_shape
from ..graphs import reference, structure, values
from ..graphs.graph import Graph
from ..instruments import (
    between,
    capacity,
    doubles,
    errors,
    memory,
    nodes,
    roofs,
    tensor_cores,
)
from ..instruments.between import FRESH
from ..instruments.calls import (
    Series,
    Timed,
    make,
    repeatable,
    report_due,
    tell_times,
    time,
    time_and_keep,
)
from ..instruments.doubles import Bring
from ..job import Trial
from ..operators import ARITHMETIC, several
from ..report import Report
from . import check, layers, microbatch, modules, sampled, served
from .microbatch import Cost, Part
from .prepared import Prepared

CHECKED = 8
"""Most examples that are held to the reference as they were timed, and how many are beside."""

PARTS = 2
"""Parts of one example that are, of a larger minibatch that is run in parts."""

TRIED = 3
"""Timed calls of a size of parts that may be chosen."""


@dataclass
class _Reached:
    """Results of the runs of a minibatch, as arrays.

    Attributes:
        parts: In which it was run; drawn anew for what is due.
        inference: Outputs of the last query where the network is served, of the first call and of
            the last.
        training: Loss and gradients of these; empty where there is no training.
        again: Outputs, and loss and gradients, for other values in the same tensors.
        same: True if further calls yielded the bits of the last one.
        seconds: Duration of a call of inference: the median of the timed calls.
        once: Seconds until the first results were there, of inference and of training.
    """

    parts: Sequence[int]
    inference: list[tuple[Any, ...]] = field(default_factory=list)
    training: list[tuple[Any, ...]] = field(default_factory=list)
    again: list[tuple[Any, ...]] = field(default_factory=list)
    same: bool = True
    seconds: float = 0.0
    once: float = 0.0


def measure(trial: Trial, framework: Framework, report: Report) -> None:
    """Run one trial and report the metrics of `catalog.due` as soon as each is known.

    One value per call for times and throughputs, or per sample of a device's clock, warm-up first;
    one value per node for times of layers; else one value. Where a minibatch is split, times are
    those of all its parts, of a node too. `peak_memory_bytes` is that of the first timed call, of
    training where there is any.

    Args:
        trial: One whose subject is a network.
        framework: Where it runs.
        report: Where the values go.

    Raises:
        ImpossibleRateError: It was faster than this machine is; all metrics were reported.
        MemoryError: It would not fit, or no example fits into the limit that the case sets.
        ValueError: The framework lacks the dtype, returned another one, or cannot split the batch.
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
    due += served.metrics(trial.serving)
    trains = "training_time" in due
    limit, batch = sizes["limit_mib"] * microbatch.MIB, sizes["batch"]
    graph = cache(lambda batch: networks.build(name, {**sizes, "batch": batch}, source))
    if trains:
        _require_derivatives(graph(1))
    if limit:
        _require_limit(graph(1), framework.name, device)
    beside = (1,) * PARTS if limit else (CHECKED,)
    checked = graph(min(batch, sum(beside)))
    bring = _choose_place(trial, framework, graph(1 if limit else batch), checked, trains=trains)
    parameters = values.varied_parameters(checked, dtype, seed)
    prepared = Prepared(
        framework=framework,
        graph=graph,
        batch=batch,
        dtype=dtype,
        seed=seed,
        warmup=trial.warmup,
        calls=trial.warmup + trial.repetitions,
        conditions=trial.conditions,
        trains=trains,
        parameters=parameters,
        tensors={key: framework.from_numpy(array, dtype) for key, array in parameters.items()},
        bring=bring,
    )
    with framework.arithmetic(dtype):
        parts = _choose(prepared, limit) if limit else (batch,)
        reached = _Reached(parts)
        timed = _time(prepared, prepared.parts(parts), reached, trial.serving)
        report_due(chain(timed, _check(prepared, reached, beside)), due, report)
        report.off_tensor_cores = _find_plain_kernel(prepared, parts)
    report.remark = doubles.describe(f"{name} {trial.case} in {dtype}", bring)
    _require_possible(prepared, reached.seconds)


def _choose_place(
    trial: Trial, framework: Framework, graph: Graph, checked: Graph, *, trains: bool
) -> Bring:
    """Return what brings arrays to where the reference of `checked` is computed.

    Raises:
        MemoryError: Something would not fit.
    """
    by_node = trains and catalog.FRAMEWORKS[framework.name].nodes
    arrays = nodes.ARRAYS if by_node else capacity.ARRAYS
    needed = graph, checked, trial.dtype, framework, trains
    reserve = between.reserve(trial.conditions, framework)
    fits = partial(capacity.network_fits, *needed, arrays, reserve)
    return doubles.choose(framework, trial.dtype, doubles.find_formulas(checked), fits)


def _require_possible(trial: Prepared, seconds: float) -> None:
    """See that inference can have been computed in its time.

    Raises:
        ImpossibleRateError: It cannot.
    """
    graph = trial.graph(trial.batch)
    flops = sum(roofs.fewest(structure.load(one.operator), one.sizes) for one in graph.inference)
    roofs.require_possible(trial.framework, graph.name, trial.dtype, flops, seconds)


def _require_limit(single: Graph, framework: str, device: str) -> None:
    """See that a minibatch can be split, and that it shows how much memory its parts take.

    Raises:
        ValueError: It cannot, or does not.
    """
    if not catalog.reports_memory(framework, device):
        raise ValueError(
            f"{framework} does not report its memory use, so limit_mib cannot be enforced: leave"
            " limit_mib out"
        )
    microbatch.check_divisible(single)


def _choose(trial: Prepared, limit: int) -> tuple[int, ...]:
    """Return sizes of the parts that the minibatch is run in."""
    watch = memory.watch(trial.framework)

    def cost(size: int) -> Cost:
        if size == 1:  # the first: what is done but once counts for no size
            call, arguments = trial.call(trial.parts((1,)))
            call(*arguments)
        # parts that follow another one keep its gradients meanwhile
        parts = trial.parts((size,) if size == trial.batch else (size, size))
        call, arguments = trial.call(parts)
        watch.reset_peak()
        # later calls may find, or pile up, what the first one leaves
        first = time(trial.framework, call, arguments, 1)[0]
        peak = watch.peak()
        seconds = first + time(trial.framework, call, arguments, TRIED - 1)[0]
        return Cost(median(seconds) / len(parts), peak)

    def peak(sizes: tuple[int, ...]) -> int:
        call, arguments = trial.call(trial.parts(sizes))
        watch.reset_peak()
        time(trial.framework, call, arguments, 1)
        return watch.peak()

    trained = trial.graph(1).trainable if trial.trains else ()
    least = ARITHMETIC[trial.dtype].bytes * sum(trial.parameters[name].size for name in trained)
    return microbatch.choose(trial.batch, limit, least, cost, peak)


def _time(
    trial: Prepared, parts: Sequence[Part], reached: _Reached, serving: Serving | None
) -> Iterator[Series]:
    framework, graph = trial.framework, trial.graph(trial.batch)
    counts = trial.warmup, trial.calls
    timed = _run(trial, parts, reached, *counts, trained=False)
    reached.seconds = median(timed.seconds[timed.warmup :])
    yield from tell_times("inference", timed, trial.batch, trial.warmup)
    by_layer = layers.measure(trial, parts, layers.forward)
    yield Series("layer_time", by_layer)
    yield Series("framework_overhead", (reached.seconds / max(sum(by_layer), 1e-9) - 1,))
    if trial.trains:
        timed = _run(trial, parts, reached, *counts, trained=True)
        yield from tell_times("training", timed, trial.batch, trial.warmup)
        yield Series("micro_batches", (float(len(parts)),))
        if catalog.FRAMEWORKS[framework.name].nodes:
            backward = layers.measure(trial, parts, layers.backward)
            yield Series("layer_backward_time", backward)
    yield Series("peak_memory_bytes", (float(timed.peak),))
    yield Series("compile_time", (reached.once,))
    count = sum(trial.parameters[name].size for name in graph.trainable)
    yield Series("parameters", (float(count),))
    flops = sum(structure.load(node.operator).flops(node.sizes) for node in graph.inference)
    yield Series("forward_flops", (float(flops),))
    if serving:
        others = [trial.parts(reached.parts, FRESH + more) for more in range(2)]
        yield from served.measure(trial, serving, parts, others, reached.inference)


def _run(
    trial: Prepared,
    parts: Sequence[Part],
    reached: _Reached,
    warmup: int,
    calls: int,
    *,
    trained: bool,
) -> Timed:
    """Time calls, keep what they come to, and call again for other values.

    Returns:
        See `time_and_keep`; without the results.
    """
    trial.placed.clear()
    prepare = trial.training if trained else trial.inference
    (call, arguments), once = make(lambda: prepare(parts))
    placed = tuple(trial.placed)

    def refill(further: int) -> None:
        trial.fill(placed, trial.parts(reached.parts, further))

    def keep(results: tuple[Any, ...]) -> tuple[Any, ...]:
        return trial.arrays(parts, results, trained=trained)

    framework, watch = trial.framework, memory.watch(trial.framework)
    before = between.prepare(trial.conditions, calls, refill, framework)
    timed = time_and_keep(framework, call, arguments, warmup, calls, keep, watch, before)
    reached.once += once + timed.once
    native = tuple(map(trial.framework.to_numpy, timed.last))
    reached.same &= repeatable(trial.framework, call, arguments, native)
    kept = reached.training if trained else reached.inference
    kept += [timed.first, keep(timed.last)]
    others = trial.parts(reached.parts, FRESH)
    if trial.framework.fill is None:
        call, arguments = prepare(others)
    else:
        trial.fill(placed, others)
    reached.again.append(keep(several(call(*arguments))))
    # no result lies on the device while others are measured
    return replace(timed, first=None, last=())


def _check(trial: Prepared, reached: _Reached, beside: Sequence[int]) -> Iterator[Series]:
    timed = None
    if trial.batch > sum(beside):
        timed, reached = reached, _Reached(beside, same=reached.same)
        for trained in (False, True)[: 1 + trial.trains]:
            # one call, which is not timed
            _run(trial, trial.parts(beside), reached, 1, 1, trained=trained)
    parts = trial.exact(trial.parts(reached.parts))
    (whole,) = trial.exact(trial.parts((sum(reached.parts),)))
    due = check.right(parts, whole, trial.exact_parameters, trial.dtype, trial.seed, trial.trains)
    again = _hold_again(trial, reached, due, timed)
    bounds = due.output_bounds
    *before, last = reached.inference
    reported = errors.errors(last, due.outputs, bounds)
    others = (*(errors.worst_ratio(one, due.outputs, bounds) for one in before), again[0])
    reported["l2_error_ratio"] = (errors.largest([*reported["l2_error_ratio"], *others]),)
    for metric, norms in reported.items():
        yield Series(metric, norms)
    if trial.trains:
        last = reached.training[-1]
        yield Series("loss", (float(last[0]),))
        limits = due.training_bounds
        ratios = [errors.worst_ratio(one, due.training, limits) for one in reached.training]
        yield Series("grad_l2_error_ratio", (errors.largest([*ratios, again[1]]),))
        run_in = check.separate(parts, whole)
        moved = run_in, trial.exact_parameters
        worst = check.gradient_check(*moved, last[1:], limits[1:], trial.seed)
        yield Series("gradient_check", (worst,))
        if catalog.FRAMEWORKS[trial.framework.name].nodes:
            held = _hold_nodes(trial, run_in[0])
            yield Series("element_error_ratio", (held.element,))
            yield Series("bound_share", (held.share,))
    yield Series("repeatable", (float(reached.same),))


def _hold_again(
    trial: Prepared, reached: _Reached, due: check.Right, timed: _Reached | None
) -> list[float]:
    """Check the results for other values, of inference and of training.

    With them, of a timed batch that is not held whole, what of it is held.
    """
    parts = trial.exact(trial.parts(reached.parts, FRESH))
    (whole,) = trial.exact(trial.parts((sum(reached.parts),), FRESH))
    exact = check.compute(parts, whole, trial.exact_parameters, trial.dtype, trial.trains)
    before = (due.outputs, due.output_bounds), (due.training, due.training_bounds)
    # of training the loss comes first
    continuous = len(due.outputs), 1
    every = zip(reached.again, exact, before, continuous)
    ratios = [
        check.hold_again(results, right, *limits, gradients_from=count)
        for results, right, limits, count in every
    ]
    for one in filter(None, (reached, timed)):
        kept = one.inference[-1:] + one.training[-1:]
        for place, results in enumerate(zip(kept, one.again)):
            if check.is_moved(exact[place], before[place][0], trial.dtype):
                ratios[place] = errors.largest([ratios[place], sampled.judge_change(*results)])
    if timed is None:
        return ratios
    held = [
        _hold_some(trial, due, 0, timed.inference),
        _hold_some(trial, due, FRESH, timed.again[:1]),
    ]
    return [errors.largest([ratios[0], *held]), *ratios[1:]]


def _hold_some(
    trial: Prepared, due: check.Right, further: int, results: Sequence[tuple[Any, ...]]
) -> float:
    """See `sampled.hold`; the bounds are those of other values."""

    def compute(inputs: Mapping[str, Any], examples: int) -> tuple[Any, ...]:
        graph = trial.graph(examples)
        for name, array in inputs.items():
            require_shape(name, array.shape, graph.inputs[name].shape)
        (part,) = trial.exact((Part(graph, inputs, 1.0),))
        return check.compute((part,), part, trial.exact_parameters, trial.dtype, trains=False)[0]

    def judge(outputs: tuple[Any, ...], right: tuple[Any, ...]) -> float:
        bounds = due.output_bounds
        return check.hold_again(outputs, right, due.outputs, bounds, gradients_from=len(right))

    (whole,) = trial.parts((trial.batch,), further)
    count = min(CHECKED, trial.batch)
    return sampled.hold(whole.inputs, trial.batch, count, results, compute, judge)


def _hold_nodes(trial: Prepared, part: Part) -> nodes.Held:
    """Return every node by itself; of a minibatch in parts those of the first."""
    record = nodes.Record(trial.dtype, per_element=True)
    graph = replace(part.graph, nodes=part.graph.training)
    exact = reference.widen({**part.inputs, **trial.exact_parameters}, trial.dtype)
    reference.differentiate(graph, exact, reference.evaluate(graph.nodes, exact, record), record)
    return nodes.hold_nodes(trial.framework, graph, part.inputs, record)


def _find_plain_kernel(trial: Prepared, sizes: Sequence[int]) -> str:
    """Return a kernel of a product, of one call each, if none of them used tensor cores."""

    def run() -> None:
        for prepare in (trial.inference, trial.training)[: 1 + trial.trains]:
            function, arguments = prepare(trial.parts(sizes))
            function(*arguments)

    return tensor_cores.look(trial.framework, trial.dtype, run)


def _require_derivatives(graph: Graph) -> None:
    """See that a network can be trained.

    Raises:
        ValueError: One of its nodes has no derivative here.
    """
    for node in graph.training:
        if node.operator == structure.ONNX:
            known = ": ".join(filter(None, (node.sizes["kind"], graph.refusals.get(node.name))))
            raise ValueError(
                f"{graph.name} cannot be trained: capsule has no derivative of {node.name}"
                f" ({known}); leave trains out to measure only inference"
            )
