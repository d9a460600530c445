"""Level 1 trials: what they report, what they show of wrong networks, and that they repeat."""

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import monotonic_ns
from typing import Any, Protocol

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import catalog, frameworks, networks, operators
from capsule.levels.frameworks.base import Call
from capsule.levels.frameworks.numpy import Numpy
from capsule.levels.instruments import capacity, timing
from tests.support import trials
from tests.support.changed import change
from tests.support.jobs import EACH_FRAMEWORK, Event, end, job, network, operator, run, samples

RATIOS = ("l2_error_ratio", "grad_l2_error_ratio", "gradient_check")


Array = NDArray[Any]
Change = Callable[..., tuple[Array, ...]]
"""Takes what a call returned, one by one; returns what it returns instead."""


def values(
    name: str, dtype: str = "float32", source: str | None = None, **parameters: int
) -> trials.Values:
    numpy_alone = frameworks.load("numpy", "cpu", 1, "default")
    return trials.values(
        numpy_alone, network=name, dtype=dtype, source=source, parameters=parameters
    )


class Journals(Protocol):
    def __call__(self, framework: str, attempt: int = 0) -> list[Event]: ...


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Journals:
    """The events of a LeNet in a process of its own, by framework; each run twice."""
    kept: dict[tuple[str, int], list[Event]] = {}

    def of(framework: str, attempt: int = 0) -> list[Event]:
        if (framework, attempt) not in kept:
            folder = tmp_path_factory.mktemp(framework)
            pair = [network("lenet", batch=4), operator("gemm", m=32, n=32, k=32)]
            kept[framework, attempt] = run(folder, job(pair, framework))
        return kept[framework, attempt]

    return of


IDENTITY = "lenet/default/float32/17"


@EACH_FRAMEWORK
def test_the_journal_has_what_is_due_of_a_network(journals: Journals, framework: str) -> None:
    assert end(journals(framework), IDENTITY)["outcome"] == "completed"
    lines = samples(journals(framework), IDENTITY)
    due = catalog.due(catalog.NETWORKS["lenet"], framework, "cpu")
    assert sorted(lines) == sorted(facts.name for facts in due)
    value = {name: line["values"] for name, line in lines.items()}
    for metric in RATIOS:
        assert 0 < value[metric][0] < 1
    assert (value["repeatable"], value["micro_batches"]) == ([1.0], [1.0])
    assert value["parameters"] == [61706.0]
    assert value["loss"][0] == pytest.approx(numpy.log(10), rel=0.2)  # 10 classes, none learnt


@EACH_FRAMEWORK
def test_times_have_their_warmup_and_throughputs_are_examples_over_them(
    journals: Journals, framework: str
) -> None:
    lines = samples(journals(framework), IDENTITY)
    for way in ("inference", "training"):
        times, rates = lines.pop(f"{way}_time"), lines.pop(f"{way}_throughput")
        assert (times["warmup"], rates["warmup"]) == (1, 1)
        assert len(times["values"]) == 5
        assert rates["values"] == pytest.approx([4 / seconds for seconds in times["values"]])
    assert {line["warmup"] for line in lines.values()} == {0}


@EACH_FRAMEWORK
def test_every_node_has_its_time_and_the_rest_is_overhead(
    journals: Journals, framework: str
) -> None:
    lines = samples(journals(framework), IDENTITY)
    nodes = networks.build("lenet", {"batch": 4}).inference
    layers = lines["layer_time"]["values"]
    assert len(layers) == len(nodes)
    assert all(0 < seconds < 60 for seconds in layers)
    whole = median(lines["inference_time"]["values"][1:])
    assert lines["framework_overhead"]["values"] == [pytest.approx(whole / sum(layers) - 1)]


def test_flops_are_those_of_inference_at_the_case_s_batch() -> None:
    one, four = (values("lenet", batch=batch)["forward_flops"][0] for batch in (1, 4))
    assert four == 4 * one
    # the first convolution: 6 x 28 x 28 sums of 25 products, and a bias each
    assert one > 6 * 28 * 28 * 50


@EACH_FRAMEWORK
@pytest.mark.parametrize("identity", [IDENTITY, "gemm/default/float32/17"])
def test_two_processes_with_one_seed_yield_the_same_bits(
    journals: Journals, framework: str, identity: str
) -> None:
    """So `exact` can be claimed of every portable metric: equal, not close."""
    subject = catalog.SUBJECTS[identity.partition("/")[0]]
    portable = [facts.name for facts in subject.metrics if facts.kind == "portable"]
    first, second = (samples(journals(framework, attempt), identity) for attempt in (0, 1))
    assert "l2_error" in portable
    for metric in portable:
        assert first[metric]["values"] == second[metric]["values"], metric


NETWORK = """
parameters = ("batch",)
options = {"loss": 1}

def network(g, sizes):
    x = g.input("x", (sizes["batch"], 5))
    x = g.linear(g.relu(g.linear(x, 7)), 3)
    labels = g.labels("label", sizes["batch"], 3)
    return g.graph([x], loss=g.softmax_cross_entropy(x, labels) if sizes["loss"] else None)
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(NETWORK)
    return str(path)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_users_network_is_judged_like_ours(mine: str, dtype: str) -> None:
    reported = values("mine", dtype=dtype, source=mine, batch=3)
    assert reported["parameters"] == (5 * 7 + 7 + 7 * 3 + 3,)
    assert len(reported["layer_time"]) == 3
    for metric in RATIOS:
        assert 0 < reported[metric][0] < 1


def test_what_no_gradient_passes_stays_where_parameters_are_moved() -> None:
    reported = values("cosmogan", batch=3, side=8, width=3, layers=2, latent=4)
    for metric in RATIOS:
        assert 0 < reported[metric][0] < 1


def test_training_without_a_loss_says_what_is_missing(mine: str) -> None:
    with pytest.raises(ValueError, match="mine has no loss"):
        values("mine", source=mine, batch=3, loss=0)


def test_a_wrong_derivative_that_reference_and_framework_share_is_seen(
    mine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    relu = type(operators.load("relu"))
    right = relu.backward
    monkeypatch.setattr(
        relu, "backward", lambda *words: tuple(c * 1.01 for c in right(*words)), raising=True
    )
    reported = values("mine", source=mine, batch=3)
    assert reported["grad_l2_error_ratio"][0] < 1
    assert reported["gradient_check"][0] > 1


class Wrong(Numpy):
    """numpy with something of its results changed."""

    def __init__(self, inference: Change | None = None, training: Change | None = None) -> None:
        super().__init__()
        self._changes = {"inference": inference, "training": training}
        change(self, self._change)

    def _change(self, way: str, call: Call) -> Call:
        function, arguments = call
        wrong = self._changes[way]
        return (lambda *operands: wrong(*function(*operands)), arguments) if wrong else call


def drifting() -> Change:
    """Results that move by a last bit from call to call."""
    calls = iter(range(10**6))
    return lambda first, *rest: (first * numpy.float32(1 + next(calls) % 2 * 2**-23), *rest)


def judge(mine: str, **changes: Change) -> dict[str, float]:
    """The first value of each metric of a network whose results are changed."""
    work: trials.Entry = {"network": "mine", "source": mine, "parameters": {"batch": 4}}
    reported = trials.values(Wrong(**changes), **work)
    return {name: numbers[0] for name, numbers in reported.items()}


@pytest.mark.parametrize(
    ("changes", "metrics"),
    [
        (
            {"inference": lambda x, *nodes: (x * numpy.float32(1.001), *nodes)},
            ["l2_error_ratio"],
        ),
        (
            {"training": lambda loss, *by: (loss, *(grad * numpy.float32(1.001) for grad in by))},
            ["grad_l2_error_ratio", "gradient_check"],
        ),
        (
            {"training": lambda loss, first, *by: (loss, first * numpy.float32(0), *by)},
            ["grad_l2_error_ratio", "gradient_check"],
        ),
        # a sum where a mean is due, its gradients right
        ({"training": lambda loss, *by: (loss * numpy.float32(2), *by)}, ["grad_l2_error_ratio"]),
    ],
)
def test_wrong_results_leave_their_bounds_and_no_others(
    mine: str, changes: Mapping[str, Change], metrics: Sequence[str]
) -> None:
    value = judge(mine, **changes)
    assert [metric for metric in RATIOS if value[metric] > 1] == metrics
    assert value["repeatable"] == 1


@pytest.mark.parametrize("way", ["inference", "training"])
def test_results_that_change_from_call_to_call_are_seen(mine: str, way: str) -> None:
    value = judge(mine, **{way: drifting()})
    assert value["repeatable"] == 0
    assert all(value[metric] < 1 for metric in RATIOS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inference": lambda x: (x.T,)}, r"returned float32 \(3, 4\), expected float32 \(4, 3\)"),
        ({"inference": lambda x: (x.astype("float64"),)}, r"float64 \(4, 3\), expected float32"),
        ({"training": lambda loss, *by: (loss[None], *by)}, r"returned float32 \(1,\) and"),
        ({"training": lambda loss, *by: (loss, *by[:-1])}, r"expected .* and float32 \(3,\)"),
    ],
)
def test_results_of_another_shape_or_type_are_an_error(
    mine: str, changes: Mapping[str, Change], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        judge(mine, **changes)


class Launching(Numpy):
    """numpy on a device of its own: calls return at once, results are there `SPAN` later.

    Without `waits` nothing tells the program to wait, and the device never gets to its work.
    """

    SPAN = 5_000_000

    def __init__(self, waits: bool) -> None:
        super().__init__()
        self._working: list[threading.Thread] = []
        self._never = threading.Event()
        self._waits = waits
        self.synchronize = self._join if waits else None
        change(self, lambda _, call: self._launch(call))

    def _launch(self, call: Call) -> Call:
        function, arguments = call

        def launch(*operands: Any) -> tuple[Array, ...]:
            right = function(*operands)
            results = tuple(map(numpy.zeros_like, right))
            worker = threading.Thread(target=self._work, args=(right, results), daemon=True)
            worker.start()
            self._working.append(worker)
            return results

        return launch, arguments

    def _work(self, right: Sequence[Array], results: Sequence[Array]) -> None:
        self._never.wait(None if not self._waits else self.SPAN / 1e9)
        for result, array in zip(results, right, strict=True):
            result[...] = array

    def _join(self) -> None:
        while self._working:
            self._working.pop().join()

    def to_numpy(self, tensor: Array) -> Array:
        if self._waits:
            self._join()
        return tensor


def test_a_device_is_waited_for(mine: str) -> None:
    work: trials.Entry = {"network": "mine", "source": mine, "parameters": {"batch": 3}}
    reported = trials.values(Launching(True), **work)
    for metric in ("inference_time", "training_time", "layer_time"):
        assert min(reported[metric]) * 1e9 >= Launching.SPAN
    assert all(reported[metric][0] < 1 for metric in RATIOS)
    # the mistake: results are taken that are not there yet
    assert trials.values(Launching(False), **work)["l2_error_ratio"][0] > 1000


def test_launched_work_is_in_the_time_of_its_own_call() -> None:
    ends = []

    def work(until: int) -> None:
        while monotonic_ns() < until:
            pass
        ends.append(monotonic_ns())

    workers: list[threading.Thread] = []

    def join() -> None:
        for worker in workers:
            worker.join()

    def launch() -> None:
        worker = threading.Thread(target=work, args=(monotonic_ns() + 3_000_000,))
        worker.start()
        workers.append(worker)

    nanoseconds, _ = timing.measure(launch, (), 4, join)
    assert len(ends) == 4
    assert min(nanoseconds) >= 3_000_000
    held = threading.Event()
    unfinished = []

    def launch_held() -> None:
        worker = threading.Thread(target=held.wait)
        worker.start()
        unfinished.append(worker)

    timing.measure(launch_held, (), 4)  # returns, though no work will end before `held` is set
    assert [worker.is_alive() for worker in unfinished] == [True] * 4
    held.set()


class Keeping(Numpy):
    """numpy under the name of a framework that keeps what it allocates."""

    name = "tensorflow"


def test_a_framework_that_keeps_its_memory_can_keep_no_limit() -> None:
    work: trials.Entry = {"network": "lenet", "parameters": {"batch": 2, "limit_mib": 64}}
    message = "tensorflow does not report its memory use, so limit_mib cannot be enforced"
    with pytest.raises(ValueError, match=message):
        trials.values(Keeping(), **work)
    del work["parameters"]["limit_mib"]
    assert "peak_memory_bytes" not in trials.values(Keeping(), **work)


def test_a_network_that_cannot_fit_is_refused_before_it_is_made() -> None:
    with pytest.raises(MemoryError, match=r"needs \d+\.\d GiB, the machine has \d+\.\d GiB free"):
        values("lenet", batch=10**9)


def test_what_training_keeps_is_counted_and_what_inference_drops_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = networks.build("resnet44", {"batch": 10**6})
    small = networks.build("resnet44", {"batch": 2})
    monkeypatch.setattr(capacity, "host_free", lambda: 0)
    needs = []
    for trains in (False, True):
        with pytest.raises(MemoryError) as failure:
            capacity.network_fits(graph, small, "float32", Numpy(), trains)
        needs.append(float(str(failure.value).split("needs ")[1].split()[0]))
    assert 0 < 5 * needs[0] < needs[1]
