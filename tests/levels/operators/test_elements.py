"""Results held element by element, and what was kept or put off: only right ones pass."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import catalog, frameworks, operators
from capsule.levels.frameworks.base import Call
from capsule.levels.frameworks.numpy import Numpy
from capsule.levels.instruments import errors
from tests.support import trials
from tests.support.changed import change

Array = NDArray[Any]
FORWARD, BACKWARD = "element_error_ratio", "grad_element_error_ratio"


def ratio(name: str, dtype: str, results: tuple[Array, ...], **parameters: int) -> float:
    """The largest error of an element over its bound."""
    operator, sizes, inputs = make(name, dtype, **parameters)
    return errors.worst_element(results, operators.due(operator, sizes, inputs, dtype))


def make(
    name: str, dtype: str, **parameters: int
) -> tuple[operators.Operator, Mapping[str, int], tuple[Array, ...]]:
    operator, sizes = operators.load(name), catalog.OPERATORS[name].complete(parameters)
    return operator, sizes, operator.inputs(sizes, dtype, 17)


def strassen(a: Array, b: Array) -> Array:
    """Three levels deep."""
    n = len(a) // 2
    if n < 16:
        return a @ b
    (p, q, r, s), (t, u, v, w) = ((x[:n, :n], x[:n, n:], x[n:, :n], x[n:, n:]) for x in (a, b))
    one, two = strassen(p + s, t + w), strassen(r + s, t)
    three, four = strassen(p, u - w), strassen(s, v - t)
    five, six, seven = strassen(p + q, w), strassen(r - p, t + u), strassen(q - s, v + w)
    return numpy.block(
        [[one + four - five + seven, three + five], [two + four, one - two + three + six]]
    )


def split(a: Array, b: Array) -> Array:
    """Eight parts of the inner axis, added up one after the other."""
    parts = zip(numpy.split(a, 8, axis=1), numpy.split(b, 8, axis=0), strict=True)
    total = numpy.zeros((len(a), b.shape[1]), a.dtype)
    for x, y in parts:
        total += x @ y
    return total


def serial(a: Array, b: Array) -> Array:
    total = numpy.zeros((len(a), b.shape[1]), a.dtype)
    for k in range(a.shape[1]):
        total += numpy.outer(a[:, k], b[k])
    return total


@pytest.mark.parametrize("product", [strassen, split, serial])
def test_other_right_products_stay_within(product: Callable[[Array, Array], Array]) -> None:
    _, _, (a, b) = make("gemm", "float32", m=128, n=128, k=128)
    result = product(a, b)
    assert result.dtype == numpy.float32
    assert 0 < ratio("gemm", "float32", (result,), m=128, n=128, k=128) < 1


CONVOLUTION = {"n": 2, "c": 8, "h": 20, "w": 20, "k": 16, "r": 3, "s": 3, "padding": 1}

# Lavin and Gray, CVPR 2016: F(4 x 4, 3 x 3), whose constants reach from 1/24 to 8
TO_TILE = [
    [4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0],
    [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1],
]  # fmt: skip
OF_KERNEL = [
    [1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6],
    [1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6], [0, 0, 1],
]  # fmt: skip
FROM_TILE = [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]


def winograd(x: Array, w: Array) -> Array:
    d, g, o = (numpy.array(one, "float32") for one in (TO_TILE, OF_KERNEL, FROM_TILE))
    padded = numpy.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    kernels = numpy.einsum("ij,kcjl,ml->kcim", g, w, g)
    result = numpy.zeros((2, 16, 20, 20), "float32")
    for row in range(0, 20, 4):
        for column in range(0, 20, 4):
            tile = padded[:, :, row : row + 6, column : column + 6]
            moved = numpy.einsum("ij,ncjl,ml->ncim", d, tile, d)
            total = numpy.einsum("ncim,kcim->nkim", moved, kernels)
            part = numpy.einsum("ij,nkjl,ml->nkim", o, total, o)
            result[:, :, row : row + 4, column : column + 4] = part
    return result


def fourier(x: Array, w: Array) -> Array:
    shape = (24, 24)
    spectrum = numpy.fft.rfft2(x, shape).astype("complex64")
    kernels = numpy.fft.rfft2(w[:, :, ::-1, ::-1], shape).astype("complex64")
    product = numpy.einsum("ncij,kcij->nkij", spectrum, kernels)
    whole: Array = numpy.fft.irfft2(product, shape)[:, :, 1:21, 1:21]
    return whole.astype("float32")


@pytest.mark.parametrize("convolve", [winograd, fourier])
def test_fast_convolutions_stay_within(convolve: Callable[[Array, Array], Array]) -> None:
    _, _, (x, w) = make("conv2d", "float32", **CONVOLUTION)
    assert 0 < ratio("conv2d", "float32", (convolve(x, w),), **CONVOLUTION) < 1


@pytest.mark.parametrize("size", [30.0, 1e3, 1e5, 1e9])
def test_fast_products_stay_within_beside_an_element_far_larger_than_all(size: float) -> None:
    operator, sizes, (x, w) = make("conv2d", "float32", **CONVOLUTION)
    x[0, 3, 7, 9] = size
    due = operators.due(operator, sizes, (x, w), "float32")
    for convolve in (winograd, fourier):
        assert 0 < errors.worst_element((convolve(x, w),), due) < 1
    operator, sizes, (a, b) = make("gemm", "float32", m=128, n=128, k=128)
    a[3, 5] = size
    due = operators.due(operator, sizes, (a, b), "float32")
    assert 0 < errors.worst_element((strassen(a, b),), due) < 1
    spoiled = numpy.array(a @ b)
    spoiled[-1, -1] += 1e-4 * size
    assert errors.worst_element((spoiled,), due) > 1


def online(x: Array) -> Array:
    """Milakov and Gimelshein, 2018: maximum and sum in one pass, by blocks."""
    most = numpy.full((len(x), 1), -numpy.inf, x.dtype)
    total = numpy.zeros((len(x), 1), x.dtype)
    for block in numpy.array_split(x, 50, axis=1):
        new = numpy.maximum(most, block.max(axis=1, keepdims=True))
        total = total * numpy.exp(most - new) + numpy.exp(block - new).sum(1, keepdims=True)
        most = new
    shares: Array = numpy.exp(x - most) / total
    return shares


def test_an_online_softmax_stays_within() -> None:
    _, _, (x,) = make("softmax", "float32", rows=16, columns=1000)
    assert 0 < ratio("softmax", "float32", (online(x),), rows=16, columns=1000) < 1


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_mean"])
def test_a_sum_from_left_to_right_stays_within_and_one_short_of_a_column_does_not(
    name: str,
) -> None:
    operator, sizes, (x,) = make(name, "float32", rows=8, columns=3000)
    count = numpy.float32(sizes["columns"] if name == "reduce_mean" else 1)
    due = operators.due(operator, sizes, (x,), "float32")
    serial_sum = numpy.cumsum(x, axis=1, dtype="float32")
    assert 0 < errors.worst_element((serial_sum[:, -1] / count,), due) < 1
    assert errors.worst_element((serial_sum[:, -2] / count,), due) > 1


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "gemm", "reduce_sum", "sigmoid"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_one_element_of_many_is_seen(name: str, dtype: str) -> None:
    _, parameters = catalog.OPERATORS[name].cases["quick"][0]
    operator, sizes, inputs = make(name, dtype, **parameters)
    due = operators.due(operator, sizes, inputs, dtype)
    right = tuple(one.value.astype(dtype) for one in due)
    assert errors.worst_element(right, due) <= 1
    wrong = right[0].copy()
    wrong.flat[-1] *= 1 + 2.0 ** (-5 if dtype == "float16" else -10)
    assert errors.worst_element((wrong,), due) > 1


def remembering(which: str) -> Callable[[str, Call], Call]:
    """Calls that go by those before."""

    def changed(_: str, call: Call) -> Call:
        function, arguments = call
        kept: list[Any] = []

        def run(*operands: Any) -> Any:
            reached = operators.several(function(*operands))
            kept.append(tuple(array.copy() for array in reached))
            zeros = tuple(map(numpy.zeros_like, reached))
            before = kept[-2] if len(kept) > 1 else zeros
            results = {"memoised": kept[0], "stale": before, "first wrong": kept[-1]}[which]
            if which == "first wrong" and len(kept) == 1:
                results = zeros
            return results if len(results) > 1 else results[0]

        return run, arguments

    return changed


WORK: trials.Entry = {
    "operator": "gemm",
    "parameters": {"m": 5, "n": 6, "k": 7},
    "repetitions": 3,
    "warmup": 1,
}


@pytest.mark.parametrize("which", ["memoised", "stale", "first wrong"])
def test_what_was_kept_or_put_off_is_no_result(which: str) -> None:
    framework = Numpy()
    right = trials.values(framework, **WORK)
    assert right[FORWARD][0] < 1
    assert right[BACKWARD][0] < 1
    change(framework, remembering(which))
    wrong = trials.values(framework, **WORK)
    assert wrong[FORWARD][0] > 1
    assert wrong[BACKWARD][0] > 1
    # whatever is constant shows none of it
    assert wrong["l2_error_ratio"] == right["l2_error_ratio"]


def test_gradients_that_change_from_call_to_call_are_told() -> None:
    calls = iter(range(10**6))

    def drift(way: str, call: Call) -> Call:
        function, arguments = call
        if way != "gradient":
            return call
        scale = numpy.float32(2**-23)

        def run(*operands: Any) -> Any:
            factor = 1 + next(calls) % 2 * scale
            return tuple(one * factor for one in function(*operands))

        return run, arguments

    framework = frameworks.load("numpy", "cpu", 1, "default")
    assert isinstance(framework, Numpy)
    change(framework, drift)
    values = trials.values(framework, **WORK)
    assert values["repeatable"] == (0.0,)
    assert values[BACKWARD][0] < 1


def test_an_error_function_is_right_to_a_rounding() -> None:
    x = numpy.concatenate([numpy.linspace(-6, 6, 4001), [1e-300, -1e-8]])
    due = operators.EXACT.erf(x.astype(numpy.longdouble))
    assert (abs(operators.EXACT.erf(x) - due) <= 2**-52 * abs(due)).all()


def test_a_formula_in_numpy_stays_far_below_its_bound_under_a_seed_of_which_one_did_not() -> None:
    parameters = {"n": 100000, "approximate": 0}
    of = {"operator": "gelu", "dtype": "float64", "parameters": parameters}
    values = trials.values(Numpy(), seed=1627586972, **of)
    assert max(values[FORWARD] + values[BACKWARD]) < 0.5
