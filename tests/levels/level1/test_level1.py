"""Level 1 trials: what they report, what they tell of wrong networks, and that they repeat."""

import threading
from importlib import util
from statistics import median
from time import monotonic_ns

import numpy
import pytest

from capsule.levels import catalog, frameworks, level1, networks, operators
from capsule.levels.frameworks.numpy import Numpy
from capsule.levels.instruments import capacity, timing
from tests.levels.test_run import EACH_FRAMEWORK, end, job, run, samples, trial
from tests.support.changed import change

needs_torch = [
    pytest.mark.torch,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here"),
]

RATIOS = ("l2_error_ratio", "grad_l2_error_ratio", "gradient_check")


def network(name, case="default", repetitions=3, warmup=1, dtype="float32", **parameters):
    found = trial(name, case, repetitions, warmup, dtype, **parameters)
    del found["operator"]
    return {**found, "level": 1, "network": name}


def measured(name, framework="numpy", dtype="float32", source=None, **parameters):
    loaded = frameworks.load(framework, "cpu", 1, "default")
    work = {**network(name, dtype=dtype, **parameters), "source": source}
    return {each.metric: each for each in level1.measure(work, loaded, 17)}


def values(found):
    return {name: each.values for name, each in found.items()}


@pytest.fixture(scope="module")
def journals(tmp_path_factory):
    """The events of a LeNet in a process of its own, by framework; each run twice."""
    found = {}

    def of(framework, attempt=0):
        if (framework, attempt) not in found:
            folder = tmp_path_factory.mktemp(framework)
            work = [network("lenet", batch=4), trial("gemm", m=32, n=32, k=32)]
            found[framework, attempt] = run(folder, job(work, framework))
        return found[framework, attempt]

    return of


IDENTITY = "lenet/default/float32/17"


@EACH_FRAMEWORK
def test_the_journal_has_what_is_due_of_a_network(journals, framework):
    assert end(journals(framework), IDENTITY)["outcome"] == "completed"
    found = samples(journals(framework), IDENTITY)
    due = catalog.due(catalog.NETWORKS["lenet"], framework, "cpu")
    assert list(found) == [each.name for each in due]
    value = {name: event["values"] for name, event in found.items()}
    for metric in RATIOS:
        assert 0 < value[metric][0] < 1
    assert (value["repeatable"], value["micro_batches"]) == ([1.0], [1.0])
    assert value["parameters"] == [61706.0]
    assert value["loss"][0] == pytest.approx(numpy.log(10), rel=0.2)  # 10 classes, none learnt


@EACH_FRAMEWORK
def test_times_have_their_warmup_and_throughputs_are_examples_over_them(journals, framework):
    found = samples(journals(framework), IDENTITY)
    for way in ("inference", "training"):
        times, rates = found[f"{way}_time"], found[f"{way}_throughput"]
        assert (times["warmup"], rates["warmup"]) == (1, 1)
        assert len(times["values"]) == 4
        assert rates["values"] == pytest.approx([4 / each for each in times["values"]])
    others = {name: each for name, each in found.items() if not name.startswith(("inf", "train"))}
    assert {each["warmup"] for each in others.values()} == {0}


@EACH_FRAMEWORK
def test_every_node_has_its_time_and_the_rest_is_overhead(journals, framework):
    found = {n: e["values"] for n, e in samples(journals(framework), IDENTITY).items()}
    nodes = networks.build("lenet", {"batch": 4}).inference
    assert len(found["layer_time"]) == len(nodes)
    assert all(0 < each < 60 for each in found["layer_time"])
    whole = median(found["inference_time"][1:])
    assert found["framework_overhead"] == [pytest.approx(whole / sum(found["layer_time"]) - 1)]


def test_flops_are_those_of_inference_at_the_case_s_batch():
    one, four = (values(measured("lenet", batch=batch))["forward_flops"][0] for batch in (1, 4))
    assert four == 4 * one
    # the first convolution: 6 x 28 x 28 sums of 25 products, and a bias each
    assert one > 6 * 28 * 28 * 50


@EACH_FRAMEWORK
@pytest.mark.parametrize("identity", [IDENTITY, "gemm/default/float32/17"])
def test_two_processes_with_one_seed_yield_the_same_bits(journals, framework, identity):
    """So `exact` can be claimed of every portable metric: equal, not close."""
    subject = catalog.SUBJECTS[identity.partition("/")[0]]
    portable = [each.name for each in subject.metrics if each.kind == "portable"]
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
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(NETWORK)
    return str(path)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_users_network_is_judged_like_ours(mine, dtype):
    found = values(measured("mine", dtype=dtype, source=mine, batch=3))
    assert found["parameters"] == (5 * 7 + 7 + 7 * 3 + 3,)
    assert len(found["layer_time"]) == 3
    for metric in RATIOS:
        assert 0 < found[metric][0] < 1


def test_training_without_a_loss_says_what_is_missing(mine):
    with pytest.raises(ValueError, match="mine has no loss"):
        measured("mine", source=mine, batch=3, loss=0)


def test_a_wrong_derivative_that_reference_and_framework_share_is_told(mine, monkeypatch):
    relu = type(operators.load("relu"))
    right = relu.backward
    monkeypatch.setattr(
        relu, "backward", lambda *given: tuple(c * 1.01 for c in right(*given)), raising=True
    )
    found = values(measured("mine", source=mine, batch=3))
    assert found["grad_l2_error_ratio"][0] < 1
    assert found["gradient_check"][0] > 1


class Wrong(Numpy):
    """numpy with something of its results changed."""

    def __init__(self, inference=None, training=None):
        super().__init__()
        self._changes = {"inference": inference, "training": training}
        change(self, self._change)

    def _change(self, way, call):
        function, operands = call
        wrong = self._changes[way]
        return (lambda *given: wrong(*function(*given)), operands) if wrong else call


def drifting():
    """Results that move by a last bit from call to call."""
    calls = iter(range(10**6))
    return lambda first, *rest: (first * numpy.float32(1 + next(calls) % 2 * 2**-23), *rest)


def judged(mine, **changes):
    work = {**network("mine", batch=3), "source": mine}
    found = level1.measure(work, Wrong(**changes), 17)
    return {each.metric: each.values[0] for each in found}


@pytest.mark.parametrize(
    ("changes", "metrics"),
    [
        ({"inference": lambda x: (x * numpy.float32(1.001),)}, ["l2_error_ratio"]),
        (
            {"training": lambda loss, *by: (loss, *(each * numpy.float32(1.001) for each in by))},
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
def test_wrong_results_leave_their_bounds_and_no_others(mine, changes, metrics):
    found = judged(mine, **changes)
    assert [each for each in RATIOS if found[each] > 1] == metrics
    assert found["repeatable"] == 1


@pytest.mark.parametrize("way", ["inference", "training"])
def test_results_that_change_from_call_to_call_are_told(mine, way):
    found = judged(mine, **{way: drifting()})
    assert found["repeatable"] == 0
    assert all(found[each] < 1 for each in RATIOS)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"inference": lambda x: (x.T,)}, r"returned float32 \(3, 2\), expected float32 \(2, 3\)"),
        ({"inference": lambda x: (x.astype("float64"),)}, r"float64 \(2, 3\), expected float32"),
        ({"training": lambda loss, *by: (loss[None], *by)}, r"returned float32 \(1,\) and"),
        ({"training": lambda loss, *by: (loss, *by[:-1])}, r"expected .* and float32 \(3,\)"),
    ],
)
def test_results_of_another_shape_or_type_are_an_error(mine, changes, told):
    with pytest.raises(ValueError, match=told):
        judged(mine, **changes)


class Launching(Numpy):
    """numpy on a device of its own: calls return at once, results are there `SPAN` later.

    Without `waits` nothing tells the program to wait, and the device never gets to its work.
    """

    SPAN = 5_000_000

    def __init__(self, waits):
        super().__init__()
        self._working = []
        self._never = threading.Event()
        self._waits = waits
        self.synchronize = self._join if waits else None
        change(self, lambda _, call: self._launched(call))

    def _launched(self, call):
        function, arguments = call

        def launch(*operands):
            right = function(*operands)
            found = tuple(map(numpy.zeros_like, right))
            worker = threading.Thread(target=self._work, args=(right, found), daemon=True)
            worker.start()
            self._working.append(worker)
            return found

        return launch, arguments

    def _work(self, right, found):
        self._never.wait(None if not self._waits else self.SPAN / 1e9)
        for into, each in zip(found, right, strict=True):
            into[...] = each

    def _join(self):
        while self._working:
            self._working.pop().join()

    def to_numpy(self, tensor):
        if self._waits:
            self._join()
        return tensor


def test_a_device_is_waited_for(mine):
    work = {**network("mine", batch=3), "source": mine}
    found = {each.metric: each.values for each in level1.measure(work, Launching(True), 17)}
    for metric in ("inference_time", "training_time", "layer_time"):
        assert min(found[metric]) * 1e9 >= Launching.SPAN
    assert all(found[each][0] < 1 for each in RATIOS)
    # the mistake: results are taken that are not there yet
    found = {each.metric: each.values for each in level1.measure(work, Launching(False), 17)}
    assert found["l2_error_ratio"][0] > 1000


def test_launched_work_is_in_the_time_of_its_own_call():
    ends = []

    def work(until):
        while monotonic_ns() < until:
            pass
        ends.append(monotonic_ns())

    workers = []

    def launch():
        worker = threading.Thread(target=work, args=(monotonic_ns() + 3_000_000,))
        worker.start()
        workers.append(worker)

    nanoseconds, _ = timing.measure(launch, (), 4, lambda: [each.join() for each in workers])
    assert len(ends) == 4
    assert min(nanoseconds) >= 3_000_000
    held = threading.Event()
    unfinished = []

    def launch_held():
        worker = threading.Thread(target=held.wait)
        worker.start()
        unfinished.append(worker)

    timing.measure(launch_held, (), 4)  # returns, though no work will end before `held` is set
    assert [each.is_alive() for each in unfinished] == [True] * 4
    held.set()


class Keeping(Numpy):
    """numpy under the name of a framework that keeps what it allocates."""

    name = "tensorflow"


def test_a_framework_that_keeps_its_memory_can_keep_no_limit():
    with pytest.raises(ValueError, match="tensorflow does not report its memory use"):
        level1.measure(network("lenet", batch=2, limit_mib=64), Keeping(), 17)
    found = [each.metric for each in level1.measure(network("lenet", batch=2), Keeping(), 17)]
    assert "peak_memory_bytes" not in found


def test_a_network_that_cannot_fit_is_refused_before_it_is_made():
    with pytest.raises(MemoryError, match=r"needs \d+\.\d GiB, the machine has \d+\.\d GiB free"):
        measured("lenet", batch=10**9)


def test_what_training_keeps_is_counted_and_what_inference_drops_is_not(monkeypatch):
    graph = networks.build("resnet44", {"batch": 10**6})
    small = networks.build("resnet44", {"batch": 2})
    monkeypatch.setattr(capacity, "host_free", lambda: 0)
    needs = []
    for trains in (False, True):
        with pytest.raises(MemoryError) as failure:
            capacity.network_fits(graph, small, "float32", Numpy(), trains)
        needs.append(float(str(failure.value).split("needs ")[1].split()[0]))
    assert 0 < 5 * needs[0] < needs[1]
