"""Arrays on a device, for which the CPU stands here: numpy's functions take them."""

from collections.abc import Callable
from typing import Any

import numpy
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from capsule.levels.frameworks.base import KeepsDoubles
from capsule.levels.operators import round_to
from tests.support.devices import torch_device
from tests.support.jobs import NEEDS_TORCH

pytestmark = NEEDS_TORCH

Function = Callable[[Any, Any], Any]
"""Takes an array of reals and one of integers, both of the kind that is tried."""


def bring(array: Any) -> Any:
    framework = torch_device()
    assert isinstance(framework, KeepsDoubles)
    return framework.to_doubles(array)


def draw() -> tuple[Any, Any]:
    """Reals with zeros, a NaN's neighbours and infinities; distinct places below 4 in each row."""
    reals = numpy.linspace(-3.0, 4.0, 24).reshape(2, 3, 4)
    reals[0, 0, 0], reals[1, 2, 3], reals[0, 1, 1] = 0.0, numpy.inf, -numpy.inf
    return reals, numpy.array([[3, 0], [1, 2], [2, 1]])


def put_along(x: Any, places: Any) -> Any:
    zeros = numpy.zeros((3, 4), x.dtype, like=x)
    numpy.put_along_axis(zeros, places, x[0, :, :2], axis=1)
    return zeros


def add_at(x: Any, places: Any) -> Any:
    zeros = numpy.zeros((4, 4), x.dtype, like=x)
    numpy.add.at(zeros, numpy.array([1, 1, 3]), x[1])
    numpy.add.at(zeros, (numpy.arange(3)[:, None], places), x[1, :, :2])
    return zeros


def change_views(x: Any, places: Any) -> Any:
    copy = x.copy()
    copy[:, 1:, ::2] += 1
    copy[0][places[1]] = 7
    rest = copy[..., 1]
    rest[...] = -1
    copy[copy == 7] *= 2
    return copy


def index(x: Any, places: Any) -> Any:
    rows = x[0][range(3), places[:, 0]]
    return numpy.concatenate([rows, x[1, [2, 0], 1], x[0, 0, ::-1], x[0, :, None][1, 0]])


FUNCTIONS: dict[str, Function] = {
    "sums": lambda x, _: x.sum(axis=(0, 2), keepdims=True) + x.sum() + x[:, :1].sum(axis=-1)[0],
    "sum over no axis": lambda x, _: x.sum(axis=()),
    "sums of decisions": lambda x, _: (x > 0).sum(axis=1),
    "means": lambda x, _: x[1, :2].mean(0) + x[1, :2].var((0,)) + numpy.mean(x[1, :2]),
    "largest": lambda x, _: x.max(axis=(1, 2), keepdims=True) - x[:1].max(axis=-1, initial=2.5),
    "largest of none": lambda x, _: x[:0].max(initial=-4.0),
    "largest with NaN": lambda x, _: (x * 0).max(axis=2),
    "orders": lambda x, _: x.argsort(axis=2)[:, :, ::-1] + x.argmax(axis=0),
    "any and all": lambda x, _: numpy.where(x.any() & ~x.all(), x, 0),
    "shapes": lambda x, _: x.reshape(4, -1).swapaxes(0, 1).ravel() + x.transpose(2, 0, 1).ravel(),
    "no axes": lambda x, _: x[1, 0, 0].reshape(()) * numpy.ones((), x.dtype),
    "operators": lambda x, _: (1 - x) / 2 + 2**x - (x**2) * -abs(x) + 1 / (x + 9.5) - x / 3,
    "host's on the left": lambda x, _: numpy.arange(4) * x - numpy.float64(2) / (x + 0.5),
    "decisions": lambda x, _: ((x > 0) | (x <= -1)) & ~(x == 2) & (x != 3) & (x < 9) & (x >= -9),
    "functions": lambda x, _: numpy.exp(x) + numpy.tanh(x) + numpy.sqrt(abs(x)) + numpy.expm1(x),
    "logarithm": lambda x, _: numpy.log(numpy.square(x) + 1) + numpy.maximum(x, 0.5),
    "signs": lambda x, _: numpy.signbit(-x) | numpy.isneginf(x) | numpy.isfinite(x * 2),
    "infinities": lambda x, _: numpy.isinf(x),
    "where": lambda x, _: numpy.where(x > 0, x, numpy.where(x < 0, -numpy.inf, 3)),
    "integers": lambda _, n: numpy.ldexp(0.5 + n, n - 3) + (n >> 1 & 3),
    "products of integers": lambda _, n: n @ n.swapaxes(0, 1),
    "integers decide": lambda x, n: numpy.where(n & 2, 1.5, n),
    "products": lambda x, _: x[0, :, 2:] @ x[:, 2:, :2].swapaxes(-1, -2)[1][:, :1],
    "einsum": lambda x, _: numpy.einsum("rij,rik->jk", x[1:, :2], x[:1, 2:]),
    "norms": lambda x, _: numpy.linalg.norm(x[1, :2]) + x[1:, 0],
    "concatenated": lambda x, n: numpy.concatenate((x[0], n.astype("float64")), axis=1),
    "broadcast": lambda x, _: numpy.broadcast_to(x[:, :1], (5, 2, 3, 4)),
    "padded": lambda x, _: numpy.pad(x, ((0, 1), (2, 0), (0, 0)), constant_values=-numpy.inf),
    "moved": lambda x, _: numpy.moveaxis(x, 0, 2),
    "taken along": lambda x, n: numpy.take_along_axis(x[0], n, axis=1),
    "put along": put_along,
    "added at": add_at,
    "windows": lambda x, _: sliding_window_view(x, (2, 3), (1, 2))[:, ::2, :, ::1, ::2],
    "views": change_views,
    "indices": index,
    "like": lambda x, _: numpy.zeros_like(x) + numpy.ones_like(x[0]) + numpy.empty(0, like=x).sum(),
    "sizes": lambda x, _: x * numpy.size(x) + len(x) + x.ndim + x.size,
    "kinds": lambda x, n: x.astype(numpy.result_type(x, n)) + n.astype("int64").sum(),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_gives_what_it_gives_of_numpy_s_arrays(function: Function) -> None:
    reals, integers = draw()
    with numpy.errstate(all="ignore"):
        here = function(reals, integers)
        there = function(bring(reals), bring(integers))
    assert type(there) is type(bring(reals))
    assert there.shape == here.shape
    assert there.dtype == here.dtype
    assert numpy.allclose(numpy.asarray(there), here, rtol=1e-12, atol=0, equal_nan=True)
    assert numpy.array_equal(reals, draw()[0])


def test_one_number_is_a_number() -> None:
    one = bring(numpy.array([2.0, 3.0]))[1]
    assert (float(one), int(one), bool(one), bool(one * 0)) == (3.0, 3, True, False)


@pytest.mark.parametrize(
    "function",
    [
        numpy.fft.rfft,
        numpy.cumsum,
        numpy.add.reduce,
        numpy.cbrt,
        lambda x: numpy.add(x, 1, where=False),
        lambda x: numpy.add(x, x, out=numpy.zeros(x.shape)),
        lambda x: x * numpy.ones(x.shape, "longdouble"),
        lambda x: x.astype("float32"),
        lambda x: x.astype("longdouble"),
        lambda x: numpy.zeros(3, "float32", like=x),
    ],
)
def test_what_it_does_not_do_it_refuses(function: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError):
        function(bring(numpy.ones(3)))


def test_what_is_read_only_or_backwards_is_copied() -> None:
    for array in (numpy.broadcast_to(numpy.ones(1), 3), numpy.arange(4.0)[::-1], numpy.ones(())):
        assert numpy.array_equal(numpy.asarray(bring(array)), array)


@pytest.mark.parametrize("dtype", ["float32", "tf32", "bfloat16", "float16", "float64"])
def test_rounding_to_a_dtype_is_that_of_the_host(dtype: str) -> None:
    array = numpy.linspace(-7.0, 11.0, 1001) / 3
    rounded = numpy.asarray(round_to(bring(array), dtype))
    # torch rounds to float16 by way of float32
    host = array.astype("float32") if dtype == "float16" else array
    assert numpy.array_equal(rounded, round_to(host, dtype).astype("float64"))


def test_types_are_those_that_numpy_s_arrays_would_have() -> None:
    whole = bring(numpy.array([1, 2]))
    assert numpy.asarray(whole).dtype == "int64"
    assert numpy.asarray(whole, "float32").dtype == "float32"
    assert numpy.result_type(whole, whole) == "int64"
    assert numpy.result_type(whole, numpy.dtype("int8")) == "int64"
    made = [numpy.asarray([1, 2], like=whole), numpy.asarray([1, 2], "float64", like=whole)]
    assert [type(one) for one in made] == [type(whole)] * 2
    assert [one.dtype for one in made] == ["int64", "float64"]


def test_along_no_axis_nothing_is_reduced() -> None:
    array = bring(numpy.array([1.0, 2.0]))
    for made in (array.sum(axis=()), array.max(axis=())):
        assert numpy.asarray(made).tolist() == [1.0, 2.0]
    assert (float(array.sum()), float(array.max())) == (3.0, 2.0)


def test_more_bits_than_the_device_has_are_refused_as_such() -> None:
    with pytest.raises(TypeError, match="has more bits than float64, the widest of the device"):
        bring(numpy.ones(3)) + numpy.ones(3, "longdouble")
