"""Formulas and derivatives of every operator, held to torch in float64."""

from importlib import util

import numpy
import pytest

from capsule.levels import catalog, frameworks, operators
from tests.support import trials

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
def torch():
    return frameworks.load("torch", "cpu", 2, "default")


def made(name, case, dtype="float64", seed=17):
    operator = operators.load(name)
    sizes = catalog.OPERATORS[name].complete(dict(catalog.OPERATORS[name].cases["quick"])[case])
    return (
        operator,
        sizes,
        operator.inputs(sizes, dtype, seed),
        operator.upstream(sizes, dtype, seed),
    )


def close(result, wanted):
    wanted = wanted.astype("float64")
    return numpy.linalg.norm(result - wanted) <= 1e-10 * max(1, numpy.linalg.norm(wanted))


@pytest.mark.parametrize(("name", "case"), SMALL)
def test_formulas_and_derivatives_agree_with_torch(torch, name, case):
    operator, sizes, inputs, upstream = made(name, case)
    function, arguments = torch.operators.operation(
        operator, sizes, tuple(map(torch.from_numpy, inputs))
    )
    results = operators.several(function(*arguments))
    reference = operators.reference(operator, sizes, inputs, "float64")
    assert [array.shape for array in reference] == list(operator.outputs(sizes))
    for result, right in zip(results, reference, strict=True):
        assert close(torch.to_numpy(result), right)
    backward, none = torch.operators.gradient(
        operator,
        sizes,
        tuple(map(torch.from_numpy, inputs)),
        operator.wrt(sizes),
        tuple(map(torch.from_numpy, upstream)),
    )
    gradients = operators.reference_gradients(operator, sizes, inputs, upstream, "float64")
    results = backward(*none)
    for index, result, right in zip(operator.wrt(sizes), results, gradients, strict=True):
        assert right.shape == inputs[index].shape
        assert close(torch.to_numpy(result), right)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", catalog.OPERATORS)
def test_torch_stays_within_the_bounds(torch, name, dtype):
    _, parameters = catalog.OPERATORS[name].cases["quick"][-1]
    trial = {
        "operator": name,
        "dtype": dtype,
        "parameters": parameters,
        "repetitions": 1,
        "warmup": 0,
    }
    values = trials.values(torch, **trial)
    for metric in ("l2_error_ratio", "grad_l2_error_ratio", "gradient_check"):
        assert 0 <= values[metric][0] < 1, metric
    assert values["repeatable"] == (1.0,)


@pytest.mark.parametrize("name", ["max_pool2d", "reduce_max"])
def test_a_maximum_has_no_rival_even_in_bfloat16(name):
    case, _ = catalog.OPERATORS[name].cases["quick"][-1]
    _, sizes, (x,), _ = made(name, case, "bfloat16")
    if name == "reduce_max":
        assert ((x == x.max(axis=1, keepdims=True)).sum(axis=1) == 1).all()
        return
    windows = numpy.lib.stride_tricks.sliding_window_view(x, (sizes["r"], sizes["s"]), (2, 3))
    flat = numpy.sort(windows.reshape(*windows.shape[:4], -1), axis=-1)
    assert (numpy.diff(flat, axis=-1) > 0).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", catalog.OPERATORS)
def test_sixteen_bits_hold_every_input_exactly(torch, name, dtype):
    case, _ = catalog.OPERATORS[name].cases["quick"][0]
    _, _, inputs, upstream = made(name, case, dtype)
    for array in (*inputs, *upstream):
        assert numpy.array_equal(torch.to_numpy(torch.from_numpy(array, dtype)), array)
