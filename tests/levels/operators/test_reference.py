"""Formulas and derivatives of every operator, held to torch in float64."""

from collections.abc import Mapping
from importlib import util
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import catalog, frameworks, operators
from capsule.levels.frameworks import Framework
from tests.support import trials
from tests.support.capabilities import gradient, operation

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here"),
]

CASES = [
    (name, case)
    for name, operator in catalog.OPERATORS.items()
    for case, _ in operator.cases["quick"]
]
# a million elements show nothing that a thousand do not
SMALL = [
    (name, case)
    for name, case in CASES
    if case not in ("m512n128k1024", "m256n256k256", "rows16columns32000", "n100000")
]


@pytest.fixture(scope="module")
def torch() -> Framework:
    return frameworks.load("torch", "cpu", 2, "default")


RATIOS = (
    *("l2_error_ratio", "element_error_ratio", "gradient_check"),
    *("grad_l2_error_ratio", "grad_element_error_ratio"),
)

Array = NDArray[Any]
Made = tuple[operators.Operator, Mapping[str, int], tuple[Array, ...], tuple[Array, ...]]
"""An operator, the sizes of a case, its inputs and the gradients of its outputs."""


def make(name: str, case: str, dtype: str = "float64") -> Made:
    operator = operators.load(name)
    sizes = catalog.OPERATORS[name].complete(dict(catalog.OPERATORS[name].cases["quick"])[case])
    return (
        operator,
        sizes,
        operator.inputs(sizes, dtype, 17),
        operator.upstream(sizes, dtype, 17),
    )


def close(result: Array, wanted: Array) -> bool:
    wanted = wanted.astype("float64")
    distance = float(numpy.linalg.norm(result - wanted))
    return distance <= 1e-10 * max(1.0, float(numpy.linalg.norm(wanted)))


@pytest.mark.parametrize(("name", "case"), SMALL)
def test_formulas_and_derivatives_agree_with_torch(torch: Framework, name: str, case: str) -> None:
    operator, sizes, inputs, upstream = make(name, case)
    tensors = tuple(map(torch.from_numpy, inputs))
    function, arguments = operation(torch, operator, sizes, tensors)
    results = operators.several(function(*arguments))
    reference = operators.reference(operator, sizes, inputs, "float64")
    assert [array.shape for array in reference] == list(operator.outputs(sizes))
    for result, right in zip(results, reference, strict=True):
        assert close(torch.to_numpy(result), right)
    tensors = tuple(map(torch.from_numpy, inputs))
    arriving = tuple(map(torch.from_numpy, upstream))
    backward, operands = gradient(torch, operator, sizes, tensors, arriving)
    gradients = operators.reference_gradients(operator, sizes, inputs, upstream, "float64")
    results = backward(*operands)
    for index, result, right in zip(operator.wrt(sizes), results, gradients, strict=True):
        assert right.shape == inputs[index].shape
        assert close(torch.to_numpy(result), right)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", catalog.OPERATORS)
def test_torch_stays_within_the_bounds(torch: Framework, name: str, dtype: str) -> None:
    if catalog.refusal(catalog.OPERATORS[name], "torch", dtype, "cpu"):
        inexact = catalog.FRAMEWORKS["torch"].inexact.get(dtype, ())
        assert name in inexact or dtype not in catalog.OPERATORS[name].dtypes
        return
    _, parameters = catalog.OPERATORS[name].cases["quick"][-1]
    trial: trials.Entry = {
        "operator": name,
        "dtype": dtype,
        "parameters": parameters,
        "repetitions": 1,
        "warmup": 0,
    }
    values = trials.values(torch, **trial)
    for metric in RATIOS:
        assert 0 <= values[metric][0] < 1, metric
    assert values["repeatable"] == (1.0,)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_what_the_catalogue_calls_inexact_of_torch_still_is(torch: Framework, dtype: str) -> None:
    """The logarithm of the largest share is 0 where -6.2e-05 is due, which the dtype has."""
    operator = operators.load("softmax_cross_entropy")
    sizes = {"rows": 1, "columns": 3, "weighted": 0}
    x = numpy.array([[7, -3, -4]], "float16" if dtype == "float16" else "float32")
    given = (x, numpy.array([0]))
    due = operators.due(operator, sizes, given, dtype)
    tensors = tuple(torch.from_numpy(array, dtype) for array in given)
    function, operands = operation(torch, operator, sizes, tensors)
    assert float(torch.to_numpy(function(*operands))) == 0.0
    assert float(due[0].value) == pytest.approx(6.2e-5, rel=0.01)


@pytest.mark.parametrize(("dtype", "seed"), [("bfloat16", 1013), ("float16", 1021)])
def test_torch_s_mean_of_losses_still_rounds_each_part_of_its_sum(
    torch: Framework, dtype: str, seed: int
) -> None:
    """Of 64 losses it is beyond what rounding them and their mean can come to."""
    operator = operators.load("cross_entropy")
    sizes = {"rows": 64, "columns": 100}
    given = operator.inputs(sizes, dtype, seed)
    (bound,) = operators.bounds(operator, sizes, given, dtype)
    (right,) = operators.due(operator, sizes, given, dtype)
    tensors = tuple(torch.from_numpy(array, dtype) for array in given)
    function, operands = operation(torch, operator, sizes, tensors)
    result = float(torch.to_numpy(function(*operands)))
    assert abs(result - float(right.value.item())) > bound


@pytest.mark.parametrize("name", ["max_pool2d", "max_pool3d", "reduce_max"])
def test_a_maximum_has_no_rival_even_in_bfloat16(name: str) -> None:
    case, _ = catalog.OPERATORS[name].cases["quick"][-1]
    _, sizes, (x,), _ = make(name, case, "bfloat16")
    if name == "reduce_max":
        assert ((x == x.max(axis=1, keepdims=True)).sum(axis=1) == 1).all()
        return
    lengths = tuple(sizes[axis] for axis in "qrs" if axis in sizes)
    axes = tuple(range(2, x.ndim))
    windows = numpy.lib.stride_tricks.sliding_window_view(x, lengths, axes)
    flat = numpy.sort(windows.reshape(*windows.shape[: x.ndim], -1), axis=-1)
    assert (numpy.diff(flat, axis=-1) > 0).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", catalog.OPERATORS)
def test_sixteen_bits_hold_every_input_exactly(torch: Framework, name: str, dtype: str) -> None:
    case, _ = catalog.OPERATORS[name].cases["quick"][0]
    _, _, inputs, upstream = make(name, case, dtype)
    for array in (*inputs, *upstream):
        assert numpy.array_equal(torch.to_numpy(torch.from_numpy(array, dtype)), array)
