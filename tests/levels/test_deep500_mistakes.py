"""The silent wrong answers of Deep500 0.2.0, each caught by a check that ours passes.

Every test shows the mistake too, written out in a few lines, and that the same check rejects it.
Mistakes in what comes later get their tests with it: Adam with beta1 for its second moment, with
the optimizers of part 4; gradients of rank 0 lost by the parameter server, neighbours that average
gradients and divide by 3 on 2 ranks, and bytes counted at the network card, with the schemes of
part 5.
"""

import io
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from importlib import util
from pathlib import Path
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule import averages, reduction, summary
from capsule.levels import catalog, frameworks, networks, operators
from capsule.levels.frameworks import Framework
from capsule.levels.frameworks.base import Call, NativeTensor
from capsule.levels.frameworks.numpy import Numpy
from capsule.levels.graphs import reference, values
from capsule.levels.instruments import calls as timed_calls
from capsule.levels.instruments import errors, roofs
from capsule.levels.instruments import timing as timing_module
from capsule.levels.journal import Samples
from capsule.levels.networks import Builder
from tests.support import trials
from tests.support.changed import change
from tests.support.records import LOSS, make_record
from tests.support.trials import Entry

GEMM: Entry = {"operator": "gemm", "parameters": {"m": 3, "n": 4, "k": 5}}
RELU: Entry = {"operator": "relu", "parameters": {"n": 9}}
LENET: Entry = {"network": "lenet", "parameters": {"batch": 2}}
CALLS = {"repetitions": 4, "warmup": 2}


def measure(trial: Entry, framework: Framework | None = None) -> dict[str, Samples]:
    used = framework or frameworks.load("numpy", "cpu", None, "default")
    return trials.measure(used, **CALLS, **trial)


class Device:
    """A clock that only work moves on, and a device that works after its calls have returned."""

    LAUNCH, WORK = 7, 1000

    def __init__(self) -> None:
        self.now = self.idle_at = 0

    def call(self, *operands: NativeTensor) -> NativeTensor:
        self.now += self.LAUNCH
        self.idle_at = max(self.now, self.idle_at) + self.WORK
        return operands[0] if operands else None

    def synchronize(self) -> None:
        self.now = max(self.now, self.idle_at)

    def clock(self) -> int:
        return self.now


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device()
    monkeypatch.setattr(timing_module, "perf_counter_ns", device.clock)
    # by this clock products take no time, so each larger one would be tried
    monkeypatch.setattr(roofs, "BELIEVED", math.inf)
    return device


# metric objects shared between calls: 20 samples of two operators for 10 of one


Measured = Callable[[], None]


def samples_of_a_second_trial(measure: Callable[[Measured, int], list[int]]) -> int:
    def call() -> None:
        pass

    measure(call, 4)
    return len(measure(call, 4))


def test_a_second_trial_has_samples_of_its_own() -> None:
    def share(call: Measured, calls: int, samples: list[int] = []) -> list[int]:  # noqa: B006  (the mistake)
        samples += timing_module.measure(call, (), calls)[0]
        return samples

    def ours(call: Measured, calls: int) -> list[int]:
        return timing_module.measure(call, (), calls)[0]

    assert samples_of_a_second_trial(ours) == 4
    assert samples_of_a_second_trial(share) == 8
    framework = frameworks.load("numpy", "cpu", None, "default")
    for trial in (GEMM, RELU, GEMM, LENET, LENET):
        samples = measure(trial, framework)
        name = "inference_time" if trial is LENET else "forward_time"
        assert len(samples[name].values) == CALLS["repetitions"] + CALLS["warmup"]


# a variance map that is zero whatever varies

USER = """
parameters = ("n",)
def tensors(sizes): return {"x": (sizes["n"],)}
def outputs(sizes): return ((sizes["n"],),)
def flops(sizes): return sizes["n"]
def forward(c, sizes, x): return c.store(x * 2.0)
def backward(c, sizes, upstream, x): return (c.store(upstream * 2.0),)
def numpy(context, sizes, x):
    calls = []
    def run(x):
        calls.append(None)
        y = x * x.dtype.type(2)
        y[-1] *= x.dtype.type(1 + VARIES * (len(calls) % 3 == 0) * 2**-23)
        return y
    return run, (x,)
"""


@pytest.mark.parametrize("varies", [0, 1])
def test_one_element_that_varies_in_its_last_bit_is_seen(tmp_path: Path, varies: int) -> None:
    (tmp_path / "mine.py").write_text(USER.replace("VARIES", str(varies)))
    trial = {"operator": "mine", "source": str(tmp_path / "mine.py"), "parameters": {"n": 50}}
    samples = measure(trial)
    assert samples["repeatable"].values == (1.0 - varies,)
    assert samples["l2_error_ratio"].values[0] < 1


def test_repeatability_compares_every_call_and_not_one_with_itself() -> None:
    framework = frameworks.load("numpy", "cpu", None, "default")
    calls = iter(range(100))

    def drift() -> NDArray[numpy.float64]:
        return numpy.array([float(next(calls))])

    first = (drift(),)
    assert not timed_calls.repeatable(framework, drift, (), first)
    discarded = [numpy.concatenate([first[0]]) for _ in range(10)]  # what was measured is left out
    assert numpy.var(discarded) == 0


# a loss with its softmax left out: 15.81 for 2.44


def by_definition(scores: NDArray[Any], labels: NDArray[Any]) -> float:
    terms = [
        math.log(math.fsum(map(math.exp, row))) - row[label]
        for row, label in zip(scores.tolist(), labels.tolist(), strict=True)
    ]
    return math.fsum(terms) / len(terms)


def test_the_loss_has_its_softmax() -> None:
    operator = operators.load("softmax_cross_entropy")
    sizes = catalog.OPERATORS["softmax_cross_entropy"].complete({"rows": 8, "columns": 10})
    inputs = operator.inputs(sizes, "float32", 17)
    right = operators.reference(operator, sizes, inputs, "float32")
    bounds = operators.bounds(operator, sizes, inputs, "float32")

    def ratio(value: float) -> float:
        return errors.worst_ratio((numpy.float32(value).reshape(()),), right, bounds)

    scores, labels = inputs
    assert ratio(by_definition(scores, labels)) < 1
    left_out = -scores[numpy.arange(len(labels)), labels].mean()
    assert ratio(left_out) > 1000


def test_the_loss_of_a_network_has_its_softmax() -> None:
    graph = networks.build("lenet", catalog.NETWORKS["lenet"].complete({"batch": 2}))
    arrays = {**values.inputs(graph, "float32", 17), **values.parameters(graph, "float32", 17)}
    results = reference.forward(graph, arrays, "float32")
    (scores,) = (results[name] for name in graph.outputs)
    loss = next(node for node in graph.nodes if node.name == graph.loss)
    labels = arrays[loss.inputs[1]]
    assert by_definition(scores, labels) == pytest.approx(
        float(results[graph.require_loss()]), rel=1e-12
    )
    left_out = -scores[numpy.arange(len(labels)), labels].mean()
    assert abs(left_out - float(results[graph.require_loss()])) > 0.1


# a running average that divides by one too many: 0.8 for four losses of 1


def test_means_divide_by_the_number_of_values() -> None:
    record = make_record()
    metric = summary.metrics_document(record)["metrics"][LOSS]
    ours = [run["value"] for run in metric["runs"]]
    assert metric["mean"] == math.fsum(ours) / len(ours)
    assert metric["min"] <= metric["mean"] <= metric["max"]
    running = 0.0
    for count, value in enumerate(ours, 1):
        running += (value - running) / (count + 1)  # the mistake
    assert running != pytest.approx(metric["mean"], rel=0.1)
    assert running < metric["min"]
    assert averages.median([1.0] * 4) == 1.0


# results after the first metric only, or none


@pytest.mark.parametrize("trial", [GEMM, RELU, LENET], ids=["gemm", "relu", "lenet"])
@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_every_metric_that_is_due_is_reported(name: str, trial: Entry) -> None:
    if util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed here")
    subject = catalog.SUBJECTS[trial.get("network") or trial["operator"]]
    samples = measure(trial, frameworks.load(name, "cpu", 1, "default"))
    due = {facts.name for facts in catalog.due(subject, name, "cpu")}
    assert set(samples) == due
    assert set(list(samples)[:1]) != due  # the mistake


# a device that is never waited for: launches are timed, not work


def test_every_sample_holds_the_work_of_the_device(device: Device) -> None:
    ours, _ = timing_module.measure(device.call, (), 5, device.synchronize)
    assert ours == [device.LAUNCH + device.WORK] * 5
    device.synchronize()
    never, _ = timing_module.measure(device.call, (), 5)
    assert never == [device.LAUNCH] * 5


def test_work_from_before_is_in_no_sample(device: Device) -> None:
    device.call()
    ours, _ = timing_module.measure(device.call, (), 1, device.synchronize)
    assert ours == [device.LAUNCH + device.WORK]


class Asynchronous(Numpy):
    """numpy, as if on a device that its calls do not wait for."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.synchronize = device.synchronize
        self._device = device
        change(self, lambda _, call: self._later(call))

    def _later(self, call: Call) -> Call:
        function, arguments = call

        def launch(*operands: NativeTensor) -> Any:
            self._device.call()
            return function(*operands)

        return launch, arguments


@pytest.mark.parametrize(
    ("trial", "names"),
    [
        (GEMM, ["forward_time", "backward_time"]),
        (LENET, ["inference_time", "training_time"]),
    ],
    ids=["gemm", "lenet"],
)
def test_both_levels_wait_for_the_device(
    device: Device, trial: Entry, names: Sequence[str]
) -> None:
    samples = measure(trial, Asynchronous(device))
    for name in names:
        whole = (device.LAUNCH + device.WORK) / 1e9
        assert set(samples[name].values) == {whole}


def test_an_empty_call_holds_a_reading_of_the_clock_and_the_waiting(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> int:
        device.now += 40
        return device.now

    monkeypatch.setattr(timing_module, "perf_counter_ns", read)
    assert timing_module.empty_call_ns() == 40

    def wait() -> None:
        device.now += 500

    assert timing_module.empty_call_ns(wait) == 540


# the first calls counted with the others: 28 to 51 % too long


def test_slow_first_calls_are_warm_up(device: Device) -> None:
    class Lazy(Asynchronous):
        def _later(self, call: Call) -> Call:
            launch, arguments = super()._later(call)
            waiting = iter([10**6] * CALLS["warmup"])

            def stall(*operands: NativeTensor) -> Any:
                device.now += next(waiting, 0)
                return launch(*operands)

            return stall, arguments

    times = measure(GEMM, Lazy(device))["forward_time"]
    usual = (device.LAUNCH + device.WORK) / 1e9
    assert [seconds > usual for seconds in times.values] == [True] * 2 + [False] * 4
    line = replace(make_record().samples[0], values=times.values, warmup=times.warmup)
    assert reduction.run_value((line,)) == usual
    mean = statistics.fmean(times.values)  # the mistake
    assert mean > 1.28 * usual


# weights that a file brings, overwritten with random ones


def test_weights_of_an_onnx_file_stay_those_of_the_file(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from capsule.levels.graphs.onnx import exchange

    g = Builder("scores")
    x = g.input("x", (2, 3))
    graph = g.graph([g.linear(x, 4)])
    weights = values.parameters(graph, "float32", 17)
    model = onnx.load_from_string(exchange.dump(graph, weights))
    # listed as inputs as well, which is what Deep500 falls for
    for tensor in model.graph.initializer:
        model.graph.input.append(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        )
    path = tmp_path / "scores.onnx"
    path.write_bytes(model.SerializeToString())
    read = networks.build("mine", {"batch": 2}, str(path))
    in_the_file = {
        tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer
    }
    assert not set(read.inputs) & set(in_the_file)
    for seed in (1, 2):
        used = values.parameters(read, "float32", seed)
        assert set(used) == set(in_the_file)
        assert all(numpy.array_equal(used[name], array) for name, array in in_the_file.items())
    drawn = values.parameters(graph, "float32", 1)  # the mistake
    assert any(not numpy.array_equal(drawn[name], array) for name, array in weights.items())


# output printed inside the timed path


def capture(measure: Callable[[Measured, tuple[()], int], object]) -> str:
    with redirect_stdout(io.StringIO()) as out:
        measure(lambda: None, (), 3)
    return out.getvalue()


def test_nothing_is_printed_while_calls_are_timed(capfd: pytest.CaptureFixture[str]) -> None:
    for trial in (GEMM, RELU, LENET):
        measure(trial)
    if util.find_spec("torch") is not None:
        measure(GEMM, frameworks.load("torch", "cpu", 1, "default"))
    assert capfd.readouterr() == ("", "")

    def talk(call: Measured, arguments: tuple[()], calls: int) -> None:
        for _ in range(calls):
            call(*arguments)
            sys.stdout.write("result\n")

    assert capture(timing_module.measure) == ""
    assert capture(talk) != ""
