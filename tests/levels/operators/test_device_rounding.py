"""Rounding of correct programs on GPUs, simulated in numpy: TF32 operands, sums by halves."""

from collections.abc import Mapping
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import catalog, operators
from capsule.levels.graphs.bounds import calculator
from capsule.levels.instruments import errors
from capsule.levels.operators.normalization import EPSILON
from capsule.levels.operators.rounding import Rounding

Array = NDArray[Any]
Made = tuple[operators.Operator, Mapping[str, int], tuple[Array, ...]]


def make(name: str, dtype: str, **parameters: int) -> Made:
    operator, sizes = operators.load(name), catalog.OPERATORS[name].complete(parameters)
    return operator, sizes, operator.inputs(sizes, dtype, 17)


# TF32


def cut(x: Array, bits: int) -> Array:
    """Float32 of which so many significant bits are left, by cutting the others off."""
    mask = numpy.uint32(0xFFFFFFFF << (24 - bits) & 0xFFFFFFFF)
    result: Array = (x.view(numpy.uint32) & mask).view(numpy.float32)
    return result


def round_off(x: Array, bits: int) -> Array:
    """The same, rounded to the nearest."""
    half = numpy.uint32(1 << (23 - bits))
    return cut((x.view(numpy.uint32) + half).view(numpy.float32), bits)


def multiply(a: Array, b: Array) -> Array:
    """With exact sums, rounded once."""
    product: Array = a.astype("float64") @ b.astype("float64")
    return product.astype("float32")


@pytest.mark.parametrize("shorten", [cut, round_off])
@pytest.mark.parametrize("k", [1, 7, 256, 1024, 4096])
@pytest.mark.parametrize("positive", [False, True])
def test_operands_in_tf32_stay_within(shorten: Any, k: int, positive: bool) -> None:
    operator, sizes, (a, b) = make("gemm", "tf32", m=33, n=17, k=k)
    if positive:
        # what all operands lose has one sign then
        a, b = abs(a), abs(b)
    result = multiply(shorten(a, 11), shorten(b, 11))
    given = operator, sizes, (a, b), "tf32"
    assert 0 < errors.worst_element((result,), operators.due(*given)) < 1
    reference = operators.reference(*given)
    assert errors.worst_ratio((result,), reference, operators.bounds(*given)) < 1
    assert norm_ratio(result, a, b) < 1


def norm_ratio(result: Array, a: Array, b: Array) -> float:
    """The error of a product over its bound within a network, both in the L2 norm."""
    c = calculator("tf32")
    product = c.bilinear(lambda x, y: x @ y, c.enter(a), c.enter(b), a.shape[1])
    off = numpy.linalg.norm(result - product.value)
    return float(off / numpy.linalg.norm(product.error))


@pytest.mark.parametrize("k", [256, 1024])
def test_operands_cut_off_to_fewer_bits_lie_beyond(k: int) -> None:
    _, _, (a, b) = make("gemm", "tf32", m=33, n=17, k=k)
    a, b = abs(a), abs(b)
    assert norm_ratio(multiply(cut(a, 11), cut(b, 11)), a, b) > 0.4
    assert norm_ratio(multiply(cut(a, 9), cut(b, 9)), a, b) > 1


# gradients of a batch normalization, as torch's kernel for CUDA computes them


def narrow(x: Array, dtype: str) -> Array:
    """Numbers of the dtype, in float32."""
    with numpy.errstate(over="ignore"):
        narrowed: Array = operators.round_to(x, dtype).astype("float32")
    return narrowed


def fold(lanes: Array, dtype: str) -> Array:
    """Sums of 32 lanes: a lane gets another one's partial sum in the dtype."""
    for half in (16, 8, 4, 2, 1):
        lanes = lanes[..., :half] + narrow(lanes[..., half : 2 * half], dtype)
    summed: Array = lanes[..., 0]
    return summed


def add_up(terms: Array, dtype: str) -> Any:
    """The sum of (batch, places) by a block of 512 threads: each its own, then warp by warp."""
    batch, places = terms.shape
    width = next((size for size in (32, 64, 128, 256) if places <= size), 512)
    rows = 512 // width
    threads = numpy.zeros((rows, width), "float32")
    for sample in range(batch):
        for first in range(0, places, width):
            own = terms[sample, first : first + width]
            threads[sample % rows, : len(own)] += own
    warps = numpy.zeros(32, "float32")
    warps[: rows * width // 32] = fold(threads.reshape(-1, 32), dtype)
    return fold(warps, dtype)


def differentiate(
    x: Array, w: Array, statistics: tuple[Array, Array] | None, upstream: Array, dtype: str
) -> tuple[Array, Array, Array]:
    """The gradients by x, w and b; with given statistics those of an inference."""
    by_x, by_w, by_b = numpy.zeros(x.shape, "float32"), numpy.zeros_like(w), numpy.zeros_like(w)
    batch, channels = x.shape[:2]
    for channel in range(channels):
        values, g = (array[:, channel].reshape(batch, -1) for array in (x, upstream))
        values, g = values.astype("float32"), g.astype("float32")
        wide = values.astype("float64")
        mean, variance = wide.mean(), wide.var()
        if statistics:
            mean, variance = (one[channel] for one in statistics)
        mean = numpy.float32(mean)
        scale = numpy.float32(1 / numpy.sqrt(float(variance) + EPSILON))
        total = add_up(g, dtype)
        product = add_up(narrow(g * (values - mean), dtype), dtype)
        slope = scale * numpy.float32(w[channel])
        if statistics:
            moved = g * slope
        else:
            count = numpy.float32(g.size)
            tilt = product / count * scale * scale
            moved = (g - (values - mean) * tilt - total / count) * slope
        by_x[:, channel] = moved.reshape(x[:, channel].shape)
        by_w[channel] = narrow(numpy.asarray(product * scale), dtype)
        by_b[channel] = narrow(numpy.asarray(total), dtype)
    return narrow(by_x, dtype), by_w, by_b


SHAPES = [(2, 64, 2, 2), (2, 32, 3, 3), (2, 16, 5, 5), (8, 8, 7, 7), (3, 4, 17, 17), (64, 2, 1, 3)]


def cancel(shape: tuple[int, ...], dtype: str, size: float) -> Array:
    """Upstream gradients behind a relu, which nearly cancel in each channel."""
    generator = numpy.random.default_rng(sum(shape))
    g = generator.standard_normal(shape) * (generator.random(shape) < 0.6)
    g -= g.mean((0, 2, 3), keepdims=True) * (g != 0)
    return narrow(g * size, dtype).astype(operators.ARITHMETIC[dtype].stored)


def measure(
    name: str, dtype: str, shape: tuple[int, ...], size: float
) -> tuple[Made, Array, tuple[Array, ...]]:
    """The operator, what arrives, and the gradients that the kernel yields."""
    parameters = dict(zip("nchw", shape, strict=True))
    operator, sizes, inputs = make(name, dtype, **parameters)
    upstream = cancel(shape, dtype, size) if size else operator.upstream(sizes, dtype, 17)[0]
    x, w, _, *statistics = inputs
    given = (statistics[0], statistics[1]) if statistics else None
    results = differentiate(x, w, given, upstream, dtype)
    return (operator, sizes, inputs), upstream, results


def ratios(made: Made, upstream: Array, results: tuple[Array, ...], dtype: str) -> list[float]:
    """The largest error of an element of each gradient over its bound."""
    due = operators.due_gradients(*made, (upstream,), dtype)
    return [
        errors.worst_element((result,), (one,)) for result, one in zip(results, due, strict=True)
    ]


NORMS = ("batch_norm", "batch_norm_inference")
SIZES = {"uniform": 0.0, "cancelling": 1.0, "cancelling and tiny": 2.0**-20}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("name", NORMS)
def test_sums_by_halves_stay_within(
    name: str, dtype: str, shape: tuple[int, ...], size: float
) -> None:
    made, upstream, results = measure(name, dtype, shape, size)
    assert max(ratios(made, upstream, results, dtype)) < 1
    given = (*made, (upstream,), dtype)
    reference, limits = operators.reference_gradients(*given), operators.gradient_bounds(*given)
    assert errors.worst_ratio(results, reference, limits) < 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", NORMS)
def test_without_halves_right_sums_that_cancel_would_lie_beyond(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = measure(name, dtype, SHAPES[0], 1.0)
    monkeypatch.setattr(
        Rounding,
        "total_by_halves",
        lambda self, x, axis, unit=None: self.total(x, axis),
    )
    *_, by_b = ratios(*measured, dtype)
    assert by_b > 10


def test_products_that_underflow_need_more_than_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Rounding.total_by_halves
    measured = measure("batch_norm_inference", "float16", SHAPES[0], 2.0**-20)
    monkeypatch.setattr(
        Rounding,
        "total_by_halves",
        lambda self, x, axis, unit=None: right(self, x, axis),
    )
    assert ratios(*measured, "float16")[1] > 1


def one_after_the_other(terms: Array, dtype: str) -> Any:
    """A sum that stays in 16 bits."""
    total = numpy.zeros(1, "float32")
    for term in terms.reshape(-1):
        total = narrow(total + term, dtype)
    return total[0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sums_in_16_bits_from_end_to_end_lie_beyond(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "add_up", one_after_the_other)
    measured = measure("batch_norm", dtype, (8, 2, 16, 16), 0.0)
    assert max(ratios(*measured, dtype)) > 1


# by w, a bfloat16 keeps too few bits of the normalized values to show it
@pytest.mark.parametrize(
    ("dtype", "place"),
    [("bfloat16", 0), ("bfloat16", 2), ("float16", 0), ("float16", 1), ("float16", 2)],
)
def test_a_gradient_without_one_sample_lies_beyond(dtype: str, place: int) -> None:
    made, upstream, results = measure("batch_norm", dtype, (8, 2, 16, 16), 0.0)
    left_out = upstream.copy()
    left_out[-1] = 0
    x, w, _ = made[2]
    faulty = differentiate(x, w, None, left_out, dtype)
    planted = [*results]
    planted[place] = faulty[place]
    assert max(ratios(made, upstream, tuple(planted), dtype)) > 1


def test_dtypes_with_the_bits_of_their_sums_lose_nothing_by_halves() -> None:
    x = numpy.linspace(-1, 2, 60).reshape(3, 4, 5)
    for dtype in ("float32", "float64", "tf32"):
        c = calculator(dtype)
        by_halves, plain = c.total_by_halves(c.enter(x), (0, 2)), c.total(c.enter(x), (0, 2))
        assert numpy.array_equal(by_halves.error, plain.error)
        assert numpy.array_equal(by_halves.value, plain.value)
