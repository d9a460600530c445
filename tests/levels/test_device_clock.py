"""Times by the clock of a device, exact on a virtual one: samples, launches, warm-up, caches."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from capsule.levels import catalog, frameworks, networks, run
from capsule.levels.frameworks.base import Call
from capsule.levels.instruments import capacity, ranges, roofs
from capsule.levels.journal import Samples
from tests.support import jobs, trials
from tests.support.changed import Operators
from tests.support.virtual_cuda import PEAK_BYTES, VirtualCuda, virtual_cuda

LAUNCH, WORK = 100_000, 20_000
"""Nanoseconds: a device that waits for launches."""

RELU: trials.Entry = {"operator": "relu", "parameters": {"n": 9}}
GEMM: trials.Entry = {"operator": "gemm", "parameters": {"m": 3, "n": 4, "k": 5}}
LENET: trials.Entry = {"network": "lenet", "parameters": {"batch": 2, "side": 12}}


@pytest.fixture
def cuda() -> Iterator[VirtualCuda]:
    with virtual_cuda(LAUNCH, WORK) as device:
        yield device


@pytest.fixture
def fast() -> Iterator[VirtualCuda]:
    """A device whose launches take less than its kernels."""
    with virtual_cuda(1000, WORK) as device:
        yield device


def measure(cuda: VirtualCuda, **fields: Any) -> dict[str, Samples]:
    return trials.measure(cuda.framework, device="cuda", **fields)


def timed(line: Samples) -> list[float]:
    return [round(seconds * 1e9, 3) for seconds in line.values[line.warmup :]]


def settled(line: Samples) -> float:
    """The median after warm-up, in nanoseconds."""
    return round(median(line.values[line.warmup :]) * 1e9, 3)


def wrap(cuda: VirtualCuda, how: Callable[[str, Call], Call]) -> None:
    framework: Any = cuda.framework
    framework.operators = Operators(framework.operators, how)


@pytest.mark.parametrize(
    ("trial", "kernels"),
    [(RELU, {"forward": 1, "backward": 1}), (GEMM, {"forward": 1, "backward": 2})],
    ids=["relu", "gemm"],
)
def test_no_launch_is_in_the_time_of_an_operator(
    cuda: VirtualCuda, trial: trials.Entry, kernels: dict[str, int]
) -> None:
    lines = measure(cuda, **trial)
    for way, count in kernels.items():
        assert timed(lines[f"{way}_time"]) == [count * WORK] * 4
        # the last kernel alone is waited for
        assert timed(lines[f"{way}_latency"]) == [count * LAUNCH + WORK] * 4
        assert lines[f"{way}_latency"].warmup == 2
    rates = lines["forward_bytes_per_second"]
    assert (rates.warmup, len(rates.values)) == (
        lines["forward_time"].warmup,
        len(lines["forward_time"].values),
    )
    (amount,) = lines["forward_bytes"].values
    assert rates.values[-1] == pytest.approx(amount / (WORK * 1e-9))
    assert lines["element_error_ratio"].values[0] <= 1


@pytest.mark.parametrize("trial", [GEMM, LENET], ids=["gemm", "lenet"])
def test_what_is_due_on_a_device_is_reported(cuda: VirtualCuda, trial: trials.Entry) -> None:
    subject = catalog.SUBJECTS[trial.get("network") or trial["operator"]]
    due = {facts.name for facts in catalog.due(subject, "torch", "cuda")}
    assert set(measure(cuda, **trial)) == due


def test_a_sample_of_a_short_call_is_long_and_one_of_a_long_call_is_one_call() -> None:
    for work, calls in ((5_000, 50), (WORK, 12), (251_000, 1), (10**9, 1)):
        with virtual_cuda(1000, work) as cuda:
            log: list[int] = []
            clock = cuda.framework.device_clock
            assert clock is not None
            call, arguments = note(log, cuda)
            sampler = ranges.Sampler(clock, call, arguments, alone=True)
            (seconds,) = sampler.take(1)
            assert seconds == pytest.approx(work / 1e9)
            before = len(log)
            sampler.take(1)
            # half of a sample's length or more, and not twice as much
            assert calls <= len(log) - before <= max(1, 2.2 * calls)


def note(log: list[int], cuda: VirtualCuda) -> Call:
    """A call of one kernel that is written down."""
    import torch

    def call(tensor: Any) -> Any:
        log.append(cuda.now)
        return torch.relu(tensor)

    return call, (torch.ones(3),)


def test_a_call_without_a_kernel_takes_no_time_and_ends(cuda: VirtualCuda) -> None:
    clock = cuda.framework.device_clock
    assert clock is not None
    for alone in (True, False):
        sampler = ranges.Sampler(clock, lambda: None, (), alone=alone)
        assert sampler.take(3) == [0.0] * 3


def test_a_call_that_waits_for_the_device_is_timed_with_its_waits(cuda: VirtualCuda) -> None:
    def wait(way: str, call: Call) -> Call:
        function, arguments = call

        def run(*operands: Any) -> Any:
            result = function(*operands)
            cuda.synchronize()
            return result

        return run, arguments

    wrap(cuda, wait)
    lines = measure(cuda, **RELU)
    for way in ("forward", "backward"):
        assert timed(lines[f"{way}_time"]) == [LAUNCH + WORK] * 4
    # it was tried to queue it ahead, of each way, and that was given up
    assert cuda.holds <= 25


def test_an_event_costs_time_of_its_own_which_is_recorded(
    cuda: VirtualCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda.event_ns = 500
    job, journal = tmp_path / "job.json", tmp_path / "journal.jsonl"
    job.write_text(json.dumps(jobs.job([jobs.operator("relu", n=5)], "torch", device="cuda")))
    monkeypatch.setattr(frameworks, "load", lambda *_: cuda.framework)
    monkeypatch.setattr("gc.freeze", lambda: None)
    assert run.main(job, journal) == 0
    hello, *_ = map(json.loads, journal.read_text().splitlines())
    assert hello["environment"]["empty_range_ns"] == 500
    assert hello["environment"]["empty_call_ns"] == 0


# networks


def test_waits_for_launches_are_the_overhead_of_a_network(cuda: VirtualCuda) -> None:
    lines = measure(cuda, **LENET)
    nodes = networks.build("lenet", LENET["parameters"])
    for way, metric in (("inference", "layer_time"), ("training", "layer_backward_time")):
        kernels, rest = divmod(settled(lines[f"{way}_latency"]) - WORK, LAUNCH)
        assert (rest, kernels > 5) == (0, True)
        assert settled(lines[f"{way}_time"]) == pytest.approx(kernels * LAUNCH, rel=1e-6)
        rates = lines[f"{way}_throughput"]
        assert rates.warmup == lines[f"{way}_time"].warmup
        usual = median(rates.values[rates.warmup :])
        assert usual == pytest.approx(2e9 / (kernels * LAUNCH), rel=1e-6)
        layers = lines[metric].values
        for seconds in layers:
            of_node = seconds * 1e9 / WORK
            assert of_node == pytest.approx(round(of_node), abs=1e-6)
        if way == "inference":
            assert len(layers) == len(nodes.inference)
            assert sum(layers) * 1e9 == pytest.approx(kernels * WORK)
    (overhead,) = lines["framework_overhead"].values
    assert overhead == pytest.approx(LAUNCH / WORK - 1, rel=1e-6)


def test_a_network_without_waits_has_no_overhead_and_none_below_zero(fast: VirtualCuda) -> None:
    lines = measure(fast, **LENET)
    assert settled(lines["inference_time"]) == pytest.approx(
        sum(lines["layer_time"].values) * 1e9, rel=1e-6
    )
    assert lines["framework_overhead"].values[0] == pytest.approx(0, abs=1e-6)
    # launch after launch, and behind the first one kernel after kernel
    assert settled(lines["inference_latency"]) == settled(lines["inference_time"]) + 1000


MODULE = """
import torch
from torch import nn

inputs = {"x": (6,), "label": {"below": 3}}
quality = "accuracy"

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))

def network():
    return Net()
"""


def test_a_module_is_timed_like_a_network(cuda: VirtualCuda, tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(MODULE)
    lines = measure(cuda, network="net.py", source=str(path), parameters={"batch": 3})
    entry = networks.find("net.py", str(path))
    due = {facts.name for facts in catalog.due(entry, "torch", "cuda")}
    assert {"inference_latency", "training_latency"} <= due
    assert set(lines) == due
    assert [round(seconds * 1e9, 3) for seconds in lines["layer_time"].values] == [WORK] * 3
    assert timed(lines["inference_time"])[1:] == [3 * LAUNCH] * 3
    assert settled(lines["inference_latency"]) == 3 * LAUNCH + WORK
    assert lines["framework_overhead"].values[0] == pytest.approx(LAUNCH / WORK - 1, rel=1e-6)
    backward = lines["layer_backward_time"].values
    assert {round(seconds * 1e9, 3) for seconds in backward} == {WORK}
    kernels = (settled(lines["training_latency"]) - WORK) / LAUNCH
    assert settled(lines["training_time"]) == pytest.approx(kernels * LAUNCH)
    assert kernels > len(backward)


@pytest.mark.parametrize(
    ("scenario", "name"), [("single-stream", "latency"), ("offline", "service_time")]
)
def test_a_query_is_waited_for(cuda: VirtualCuda, scenario: str, name: str) -> None:
    lines = measure(cuda, serving={"scenario": scenario, "queries": 3}, **LENET)
    single = settled(lines["inference_latency"])
    for seconds in lines[name].values:
        # what puts the query's values into its tensors is launched before
        fills, rest = divmod(round(seconds * 1e9) - single, LAUNCH)
        assert (fills > 0, rest) == (True, 0)


# warm-up


def test_the_device_warms_up_until_its_times_settle(cuda: VirtualCuda) -> None:
    # slower by a fourteenth every 100 ms that it is younger than 400 ms
    cuda.slow = lambda now: 1.4 - min(now, 400_000_000) / 1e9
    line = measure(cuda, **RELU)["forward_time"]
    assert timed(line) == [WORK] * 4
    assert line.warmup >= 15
    windows = line.values[: line.warmup]
    assert list(windows) == sorted(windows, reverse=True)
    assert windows[0] > 1.3 * windows[-1]


@pytest.mark.parametrize(
    ("slow", "fewest", "most"),
    [
        (lambda now: 1.0, 4, 5),
        # it never settles
        (lambda now: 1 + 10 * now / 1e9, 30, 50),
    ],
)
def test_the_warm_up_has_a_least_and_a_longest_time(
    cuda: VirtualCuda, slow: Callable[[int], float], fewest: int, most: int
) -> None:
    cuda.slow = slow
    assert fewest <= measure(cuda, **RELU)["forward_time"].warmup <= most


@pytest.mark.parametrize(("calls", "windows"), [(0, 4), (2, 4), (7, 7), (60, 60)])
def test_the_warm_up_has_the_calls_of_the_manifest(calls: int, windows: int) -> None:
    # a window holds one call
    with virtual_cuda(1000, 30_000_000) as cuda:
        lines = measure(cuda, warmup=calls, repetitions=1, **RELU)
    assert lines["forward_time"].warmup == windows
    assert (lines["forward_latency"].warmup, len(lines["forward_latency"].values)) == (
        calls,
        calls + 1,
    )


# caches


def test_cold_calls_find_empty_caches_and_the_emptying_takes_no_time(cuda: VirtualCuda) -> None:
    cuda.cold_ns = 3 * WORK
    warm, cold = (measure(cuda, cold=cold, **RELU) for cold in (False, True))
    assert cuda.flushes
    assert set(cuda.flushes) == {4 * 2**14}
    for lines, work in ((warm, WORK), (cold, 3 * WORK)):
        for way in ("forward", "backward"):
            assert timed(lines[f"{way}_time"]) == [work] * 4
            assert timed(lines[f"{way}_latency"]) == [LAUNCH + work] * 4
        # what empties the caches is no memory of the operator's
        assert lines["peak_memory_bytes"].values == (PEAK_BYTES,)
        assert lines["element_error_ratio"].values[0] <= 1


def test_layers_of_a_cold_network_are_cold(fast: VirtualCuda) -> None:
    fast.cold_ns = 3 * WORK
    warm, cold = (measure(fast, cold=cold, **LENET) for cold in (False, True))
    kernels = settled(warm["inference_time"]) / WORK
    # the first kernel alone finds its caches empty
    assert settled(cold["inference_time"]) == pytest.approx((kernels + 2) * WORK)
    for once, again in zip(warm["layer_time"].values, cold["layer_time"].values, strict=True):
        assert again - once == pytest.approx(2e-9 * WORK * (once > 0), abs=1e-12)


@pytest.mark.parametrize("properties", [SimpleNamespace(), SimpleNamespace(L2_cache_size=0)])
def test_an_l2_cache_of_unknown_size_is_taken_to_be_large(
    cuda: VirtualCuda, properties: SimpleNamespace
) -> None:
    cuda.properties = properties
    clock = cuda.framework.device_clock
    assert clock is not None
    assert clock.reserve() == 4 * 2**26


def test_the_buffer_that_empties_caches_has_to_fit_once(
    cuda: VirtualCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "host_free", lambda: None)
    for entry in (RELU, {"network": "lenet", "parameters": {"batch": 1, "side": 12}}):
        cuda.free_bytes = 2**20
        cuda.properties.L2_cache_size = 2**20
        with pytest.raises(MemoryError, match="the device has"):
            measure(cuda, cold=True, **entry)
        assert "peak_memory_bytes" in measure(cuda, **entry)
    # once it is there, it is not needed again
    clock = cuda.framework.device_clock
    assert clock is not None
    clock.flush()
    assert clock.reserve() == 0
    assert "peak_memory_bytes" in measure(cuda, cold=True, **RELU)


# other values for each call


@pytest.mark.parametrize(("warmup", "repetitions"), [(2, 4), (0, 1), (1, 1), (0, 2)])
def test_the_calls_that_are_held_have_the_trial_s_own_values(
    cuda: VirtualCuda, warmup: int, repetitions: int
) -> None:
    calls: dict[str, list[float]] = {}

    def look(way: str, call: Call) -> Call:
        function, arguments = call

        def run(*operands: Any) -> Any:
            result = function(*operands)
            first = result[0] if isinstance(result, tuple) else result
            calls.setdefault(way, []).append(float(first.double().norm()))
            return result

        return run, arguments

    lines = measure(cuda, fresh=True, warmup=warmup, repetitions=repetitions, **GEMM)
    for way in ("forward", "backward"):
        assert len(timed(lines[f"{way}_time"])) == repetitions
    assert timed(lines["forward_time"]) == [WORK] * repetitions
    for metric in ("l2_error_ratio", "element_error_ratio", "grad_l2_error_ratio"):
        assert lines[metric].values[0] <= 1
    wrap(cuda, look)
    measure(cuda, fresh=True, warmup=warmup, repetitions=repetitions, **GEMM)
    for norms in calls.values():
        # the first call, the last ones by either clock, and those that are to repeat it
        assert norms.count(norms[0]) == 7 + (warmup + repetitions > 1)
        assert len(set(norms)) > 20


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("batch", [2, 9])
def test_results_of_a_network_are_held_whatever_the_calls_before_got(
    fast: VirtualCuda, batch: int, fresh: bool
) -> None:
    parameters = {"batch": batch, "side": 12}
    how: trials.Entry = {"network": "lenet", "parameters": parameters, "fresh": fresh}
    lines = measure(fast, warmup=0, repetitions=1, **how)
    assert len(timed(lines["inference_time"])) == 1
    for metric in ("l2_error_ratio", "grad_l2_error_ratio", "element_error_ratio"):
        assert 0 < lines[metric].values[0] <= 1
    assert lines["repeatable"].values == (1.0,)


# the roofline


def test_the_roof_of_products_is_by_the_same_clock(
    cuda: VirtualCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roofs, "SIZES", (128,))
    monkeypatch.setattr(roofs, "copy_rates", lambda *_: (1e30,))
    lines = measure(cuda, operator="gemm", parameters=dict.fromkeys("mnk", 64), roofline=True)
    rates = lines["machine_flops_per_second"].values
    assert set(rates) == {2 * 128**3 * 1e9 / WORK}
    (share,) = lines["roofline_share"].values
    # of products that take equally long one has an eighth of the other's operations
    assert share == pytest.approx(1 / 8)


def test_a_roof_on_a_device_copies_nothing_back(
    cuda: VirtualCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roofs, "SIZES", (128,))

    def refuse(tensor: Any) -> Any:
        raise AssertionError("a copy to the host")

    framework: Any = cuda.framework
    framework.to_numpy = refuse
    assert set(roofs.product_rates(framework, "float32")) == {2 * 128**3 * 1e9 / WORK}


def test_the_roof_of_copies_is_that_of_the_memory_of_the_device(
    cuda: VirtualCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, list[tuple[int, ...]]]] = []

    def time(framework: Any, operator: Any, sizes: Any, dtype: str, shapes: Any) -> list[int]:
        asked.append((operator.name, dtype, list(shapes)))
        return [1_000_000, 2_000_000]

    monkeypatch.setattr(roofs, "_time", time)
    monkeypatch.setattr(roofs, "_copy_in_host", lambda threads: (float(threads),))
    # a matrix and its sum with a row, whose bytes are those of what is timed
    moved = 4 * (2 * 2**26 + 2**13)
    framework: Any = cuda.framework
    on_cpu: Any = frameworks.load("torch", "cpu", 1, "default")
    assert roofs.copy_rates(framework, 3) == pytest.approx((moved / 1e-3, moved / 2e-3))
    assert asked == [("add", "float32", [(2**13, 2**13), (2**13,)])]
    assert roofs.copy_rates(on_cpu, 3) == (3.0,)


def test_only_products_that_fit_the_device_are_tried(
    cuda: VirtualCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roofs, "SIZES", (64, 128, 256))
    cuda.free_bytes = 32 * 128**2
    tried: list[int] = []

    def time(framework: Any, operator: Any, sizes: Any, *_: Any) -> list[int]:
        tried.append(sizes["m"])
        return [10]

    monkeypatch.setattr(roofs, "_time", time)
    framework: Any = cuda.framework
    roofs.product_rates(framework, "float32")
    assert tried == [64, 128]
    cuda.free_bytes = 0
    assert roofs.product_rates(framework, "tf32") == ()
