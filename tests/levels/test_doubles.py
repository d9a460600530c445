"""References on a device, for which the CPU stands here: those of the host, or a refusal."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import catalog, frameworks, operators
from capsule.levels.data import generators
from capsule.levels.frameworks import Framework
from capsule.levels.frameworks.base import Call
from capsule.levels.frameworks.numpy import Numpy
from capsule.levels.graphs import structure
from capsule.levels.instruments import capacity, doubles, errors
from capsule.levels.instruments.doubles import Bring
from capsule.levels.networks import build
from capsule.levels.operators import correlation
from capsule.levels.report import Report
from capsule.levels.run import load_level
from tests.support import trials
from tests.support.changed import Operators
from tests.support.devices import torch_device
from tests.support.jobs import NEEDS_TORCH
from tests.support.trainings import SMALL, measure

pytestmark = NEEDS_TORCH

Array = NDArray[Any]
DTYPES = ("float32", "tf32", "bfloat16", "float16")
EACH_DTYPE = pytest.mark.parametrize("dtype", DTYPES)
EACH_OPERATOR = pytest.mark.parametrize("name", catalog.OPERATORS)


def fits(*, on_device: bool = False) -> None:
    """Everything."""


def bring_for(name: str, dtype: str) -> Bring:
    """Return the function that brings arrays to the device, once it agreed with the host."""
    bring = doubles.choose(torch_device(), dtype, (name,), fits)
    assert bring is not doubles.keep
    return bring


def is_on_device(array: object) -> bool:
    from capsule.levels.frameworks.torch.arrays import DeviceArray

    return isinstance(array, DeviceArray) and array.dtype == "float64"


def agree(here: Sequence[operators.Due], there: Sequence[operators.Due], share: float) -> None:
    """All of them on the device, and as on the host but for a share of the bounds."""
    assert all(is_on_device(one.value) and is_on_device(one.error) for one in there)
    values = tuple(numpy.asarray(one.value) for one in there)
    assert errors.worst_element(values, tuple(here)) <= share
    for one, other in zip(here, there, strict=True):
        assert one.value.shape == other.value.shape
        assert numpy.allclose(one.error, numpy.asarray(other.error), rtol=1e-6, atol=0)


def hold(name: str, dtype: str, sizes: Mapping[str, int], *, hard: bool) -> None:
    operator, bring = operators.load(name), bring_for(name, dtype)
    draw = operator.hard_inputs if hard else operator.inputs
    arrive = operator.hard_upstream if hard else operator.upstream
    inputs, upstream = draw(sizes, dtype, 5), arrive(sizes, dtype, 5)
    x, g = tuple(map(bring, inputs)), tuple(map(bring, upstream))
    formula = operator, sizes
    here = operators.due(*formula, inputs, dtype)
    agree(here, operators.due(*formula, x, dtype), 2.0**-20)
    here = operators.due_gradients(*formula, inputs, upstream, dtype)
    agree(here, operators.due_gradients(*formula, x, g, dtype), 2.0**-20)
    limits = operators.bounds(*formula, inputs, dtype)
    assert operators.bounds(*formula, x, dtype) == pytest.approx(limits, rel=1e-9)
    limits = operators.gradient_bounds(*formula, inputs, upstream, dtype)
    assert operators.gradient_bounds(*formula, x, g, dtype) == pytest.approx(limits, rel=1e-9)


def sizes_of(name: str, case: str) -> Mapping[str, int]:
    entry = catalog.OPERATORS[name]
    return entry.complete(entry.cases[case][0][1])


@EACH_DTYPE
@EACH_OPERATOR
def test_each_formula_agrees_with_the_host_at_hard_values(name: str, dtype: str) -> None:
    if dtype not in catalog.OPERATORS[name].dtypes:
        return
    case = "odd" if "odd" in catalog.OPERATORS[name].cases else "quick"
    hold(name, dtype, sizes_of(name, case), hard=True)


# a million elements show nothing that a thousand do not
LARGE = ("softmax_cross_entropy", "embedding", "relu", "gemm")


@EACH_OPERATOR
def test_and_at_the_sizes_of_a_case(name: str) -> None:
    if name not in LARGE:
        hold(name, "float32", sizes_of(name, "quick"), hard=False)


ODD: list[tuple[str, dict[str, int]]] = [
    ("gemm", {"m": 1, "n": 1, "k": 1, "ta": 1, "tb": 1, "bias": 1}),
    ("softmax", {"rows": 1, "columns": 1}),
    ("reduce_max", {"rows": 1, "columns": 1}),
    ("top_k", {"rows": 1, "columns": 5, "k": 5}),
    ("gather", {"rows": 1, "columns": 1, "count": 9}),
    ("scatter_add", {"rows": 3, "columns": 1, "count": 9}),
    ("scatter_add", {"rows": 3, "columns": 9, "count": 1}),
    ("embedding", {"rows": 1, "width": 1, "count": 7}),
    ("max_pool2d", {"n": 1, "c": 1, "h": 3, "w": 2, "r": 2, "s": 2, "stride": 1, "padding": 1}),
    (
        "conv2d",
        {"n": 1, "c": 4, "h": 7, "w": 5, "k": 2, "r": 3, "s": 1, "stride": 3, "padding": 2}
        | {"dilation": 2, "groups": 2, "bias": 1},
    ),
    ("lstm_cell", {"n": 1, "width": 1, "hidden": 1}),
    ("attention", {"batch": 1, "heads": 1, "length": 1, "width": 1, "causal": 1}),
]


@pytest.mark.parametrize(("name", "point"), ODD, ids=[name for name, _ in ODD])
def test_and_where_axes_have_one_element(name: str, point: dict[str, int]) -> None:
    for hard in (False, True):
        hold(name, "float32", catalog.OPERATORS[name].complete(point), hard=hard)


@pytest.mark.parametrize("name", ["conv2d", "conv_transpose3d"])
def test_and_part_by_part(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correlation, "_ON_DEVICE", 64)
    hold(name, "float32", sizes_of(name, "odd"), hard=True)


SAME = ("l1_error", "l2_error", "max_error", "l2_error_ratio", "element_error_ratio")
GRADIENTS = ("grad_l2_error_ratio", "grad_element_error_ratio")


def measured(framework: Framework, name: str, dtype: str) -> trials.Values:
    parameters = dict(sizes_of(name, "quick"))
    work: trials.Entry = {"operator": name, "dtype": dtype, "parameters": parameters}
    return trials.values(framework, repetitions=1, warmup=0, **work)


def is_offered(name: str, dtype: str) -> bool:
    return not catalog.refusal(catalog.OPERATORS[name], "torch", dtype, "cpu")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, "float32") for name in catalog.OPERATORS), ("conv1d", "bfloat16"), ("rfft", "tf32")],
)
def test_a_trial_reports_the_same_errors(name: str, dtype: str) -> None:
    if not is_offered(name, dtype) or name in LARGE:
        return
    here = measured(frameworks.load("torch", "cpu", 2, "default"), name, dtype)
    there = measured(torch_device(), name, dtype)
    for metric in (*SAME, *GRADIENTS):
        assert there[metric] == pytest.approx(here[metric], rel=1e-5), metric
    assert there["error_heatmap"] == pytest.approx(here["error_heatmap"], rel=1e-5)
    assert 0 <= there["gradient_check"][0] < 1


def spoiling(place: tuple[int, ...], by: float) -> Any:
    """Spoil one element of each forward result."""

    def change(way: str, call: Call) -> Call:
        function, arguments = call

        def run(*operands: Any) -> Any:
            result = function(*operands)
            if way == "operation":
                result = result.clone()
                result[place] += by
            return result

        return run, arguments

    return change


@pytest.mark.parametrize("by", [1e-2, math.inf, math.nan])
def test_a_fault_in_the_last_element_is_seen(by: float) -> None:
    torch = torch_device()
    vars(torch)["operators"] = Operators(torch.operators, spoiling((-1, -1), by))
    found = measured(torch, "softmax", "float32")
    assert not found["element_error_ratio"][0] < 1
    assert not found["l2_error_ratio"][0] < 1
    assert 0 <= found["grad_element_error_ratio"][0] < 1


def test_results_that_are_not_finite_are_judged_as_on_the_host() -> None:
    bring = bring_for("relu", "float16")
    value = numpy.array([1.0, 70000.0, -70000.0, 65519.0, 70000.0, math.nan, 2.0, math.inf])
    error = numpy.array([0.1, 1.0, 1.0, 2.0, 1.0, 0.1, 0.0, 0.0])
    result = numpy.array([1, math.inf, -math.inf, math.inf, -math.inf, 1, 2, math.inf], "float16")
    here = operators.Due(value, error)
    there = operators.Due(bring(value), bring(error))
    with numpy.errstate(invalid="ignore"):
        (settled,) = errors.settle((result,), (here,), "float16")
        (moved,) = errors.settle((bring(result),), (there,), "float16")
        assert numpy.array_equal(settled, numpy.asarray(moved), equal_nan=True)
        assert math.isnan(errors.worst_element((settled,), (here,)))
        assert math.isnan(errors.worst_element((moved,), (there,)))
        first = slice(0, 4)
        parts = (settled[first],), (operators.Due(value[first], error[first]),)
        others = (moved[first],), (operators.Due(bring(value[first]), bring(error[first])),)
        assert errors.worst_element(*parts) == errors.worst_element(*others) == 0


def test_no_element_is_no_error() -> None:
    bring = bring_for("relu", "float32")
    empty = bring(numpy.zeros((0, 3), "float32"))
    assert errors.worst_element((empty,), (operators.Due(empty, empty),)) == 0


def test_another_shape_is_off_by_no_number() -> None:
    bring = bring_for("relu", "float32")
    one, other = bring(numpy.zeros(3)), bring(numpy.zeros((3, 1)))
    assert errors.worst_element((one,), (operators.Due(other, other),)) == math.inf


def test_the_host_keeps_what_the_device_cannot_do() -> None:
    asked: list[bool] = []

    def fits(*, on_device: bool = False) -> None:
        asked.append(on_device)

    torch = torch_device()
    assert doubles.choose(torch, "float64", ("gemm",), fits) is doubles.keep
    assert doubles.choose(torch, "float32", None, fits) is doubles.keep
    assert doubles.choose(Numpy(), "float32", ("gemm",), fits) is doubles.keep
    alone = frameworks.load("torch", "cpu", 2, "default")
    assert doubles.choose(alone, "float32", ("gemm",), fits) is doubles.keep
    assert asked == [False] * 4
    assert doubles.choose(torch, "float32", ("gemm",), fits) is not doubles.keep
    assert asked[4:] == [True]


def test_what_does_not_fit_on_the_device_goes_to_the_host_or_is_refused() -> None:
    def fits(*, on_device: bool = False) -> None:
        if on_device:
            raise MemoryError

    torch = torch_device()
    assert doubles.choose(torch, "float32", ("gemm",), fits) is doubles.keep

    def refuse(*, on_device: bool = False) -> None:
        raise MemoryError("nowhere")

    with pytest.raises(MemoryError, match="nowhere"):
        doubles.choose(torch, "float32", ("gemm",), refuse)
    values = measured(torch_device(free=2**22), "softmax", "float32")
    assert 0 < values["element_error_ratio"][0] < 1


def test_a_device_that_loses_bits_is_refused_once_it_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    before, right = torch_device(), torch.erf
    doubles.choose(before, "bfloat16", ("gelu",), fits)
    monkeypatch.setattr(torch, "erf", lambda x: right(x.half()).double())
    with pytest.raises(doubles.DisagreementError, match=r"the reference of gelu in bfloat16 on"):
        doubles.choose(torch_device(), "bfloat16", ("relu", "gelu"), fits)
    # of this process it is known
    assert doubles.choose(before, "bfloat16", ("gelu",), fits) is not doubles.keep
    with pytest.raises(doubles.DisagreementError):
        doubles.choose(before, "float32", ("gelu",), fits)


def remark(framework: Framework, **fields: Any) -> str:
    trial = trials.make(framework.name, **fields)
    report = Report(lambda _: None)
    load_level(trial.level)(trial, framework, report)
    return report.remark


def test_a_trial_says_where_its_reference_was_computed() -> None:
    softmax: trials.Entry = {"operator": "softmax", "parameters": {"rows": 3, "columns": 4}}
    said = "softmax default in float32: reference computed on the device in float64"
    assert remark(torch_device(), **softmax) == said
    assert remark(frameworks.load("torch", "cpu", 2, "default"), **softmax) == ""
    assert remark(torch_device(), dtype="float64", **softmax) == ""
    shape = {"batch": 1, "heads": 2, "length": 3, "width": 4}
    told = remark(torch_device(), operator="attention", parameters=shape)
    assert told.startswith("attention default in float32 ran in torch by ")
    assert told.endswith(f"; {said.replace('softmax', 'attention')}")
    told = remark(torch_device(), network="lenet", parameters={"batch": 1, "side": 12})
    assert told == said.replace("softmax", "lenet")


NETWORKS: list[tuple[str, str, dict[str, int]]] = [
    ("lenet", "bfloat16", {"batch": 3, "side": 12}),
    ("resnet9", "float32", {"batch": 4, "width": 2, "side": 8}),
    ("unet", "float32", {"batch": 1, "side": 16, "width": 1}),
]


@pytest.mark.parametrize(("name", "dtype", "point"), NETWORKS, ids=[one[0] for one in NETWORKS])
def test_a_network_is_held_to_the_same(name: str, dtype: str, point: dict[str, int]) -> None:
    work: trials.Entry = {"network": name, "dtype": dtype, "parameters": point}
    here, there = (
        trials.values(framework, repetitions=1, warmup=0, **work)
        for framework in (frameworks.load("torch", "cpu", 2, "default"), torch_device())
    )
    for metric in ("l2_error", "l2_error_ratio", "grad_l2_error_ratio", "bound_share"):
        assert there[metric] == pytest.approx(here[metric], rel=1e-4), metric
    assert there["element_error_ratio"] == pytest.approx(here["element_error_ratio"], rel=1e-4)
    assert 0 <= there["gradient_check"][0] < 1


def test_a_large_batch_is_sampled_on_the_device_too() -> None:
    point = {"batch": 20, "side": 12, "classes": 3}
    work: trials.Entry = {"network": "lenet", "parameters": point}
    values = trials.values(torch_device(), repetitions=1, warmup=0, **work)
    assert 0 < values["l2_error_ratio"][0] < 1
    assert 0 < values["grad_l2_error_ratio"][0] < 1


def test_a_network_of_other_formulas_stays_on_the_host() -> None:
    graph = build("lenet", {"batch": 1, "side": 12, "classes": 3})
    known = "average_pool2d", "conv2d", "gemm", "softmax_cross_entropy", "tanh"
    assert doubles.find_formulas(graph) == known
    other = replace(graph.nodes[0], name="other", operator=structure.ONNX)
    assert doubles.find_formulas(replace(graph, nodes=(*graph.nodes, other))) is None


@pytest.mark.parametrize(
    ("network", "optimizer"),
    [
        ("lenet", {"name": "adam", "lr": 0.01}),
        pytest.param("lenet", {"name": "lbfgs", "lr": 0.001}, marks=pytest.mark.slow),
        ("resnet9", {"name": "sgd", "lr": 0.01, "momentum": 0.9}),
    ],
)
def test_a_training_is_held_to_the_same(
    tmp_path: Path, network: str, optimizer: dict[str, Any]
) -> None:
    channels = 1 if network == "lenet" else 3
    width = {} if network == "lenet" else {"width": 2}
    work: dict[str, Any] = {"parameters": {"side": 12, "classes": 3, **width}, "epochs": 1}
    generators.write(generators.generate("glyphs", {**SMALL, "channels": channels}), tmp_path)
    here, there = (
        measure(framework, tmp_path, network=network, optimizer=optimizer, **work)
        for framework in (frameworks.load("torch", "cpu", 2, "default"), torch_device())
    )
    for metric in ("trajectory_error", "node_error_ratio", "bound_share"):
        if metric in here:
            assert there[metric] == pytest.approx(here[metric], rel=1e-4), metric
    assert all(0 <= error < 1e-9 for error in there["exact_trajectory_error"])
    assert 0 <= there["evaluation_error"][0] < 1e-9


def test_what_needs_more_than_is_free_is_refused_where_it_would_lie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator, entry = operators.load("gemm"), catalog.OPERATORS["gemm"]
    sizes = entry.complete(dict.fromkeys("mnk", 64))

    def fits(framework: Framework, **how: bool) -> None:
        capacity.fits(operator, sizes, "float32", framework, True, **how)

    monkeypatch.setattr(capacity, "host_free", lambda: 2**40)
    fits(Numpy())
    fits(torch_device())
    for on_device in (False, True):
        with pytest.raises(MemoryError, match="the device has"):
            fits(torch_device(1000), on_device=on_device)
    monkeypatch.setattr(capacity, "host_free", lambda: 1000)
    for framework in (Numpy(), torch_device()):
        with pytest.raises(MemoryError, match="the machine has"):
            fits(framework)
    # references and bounds that lie on the device need none of the host's
    fits(torch_device(), on_device=True)
