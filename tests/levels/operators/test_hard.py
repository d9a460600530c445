"""Hard inputs, odd sizes, overflow: right results pass, and what is wrong there alone does not."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import catalog, frameworks, operators
from capsule.levels.frameworks.base import Call
from capsule.levels.frameworks.numpy import Numpy
from capsule.levels.instruments import errors
from capsule.levels.operators import user
from tests.support import trials
from tests.support.changed import change

Array = NDArray[Any]
DTYPES = ("float64", "float32", "bfloat16", "float16")


def odd(name: str) -> Mapping[str, int]:
    entry = catalog.OPERATORS[name]
    ((_, point),) = entry.cases["odd"]
    return entry.complete(point)


@pytest.mark.parametrize(
    "name", [name for name, entry in catalog.OPERATORS.items() if "odd" in entry.cases]
)
def test_hard_inputs_are_what_the_dtype_holds_and_the_same_each_time(name: str) -> None:
    operator, sizes = operators.load(name), odd(name)
    for dtype in DTYPES:
        hard = operator.hard_inputs(sizes, dtype, 3) + operator.hard_upstream(sizes, dtype, 3)
        easy = operator.inputs(sizes, dtype, 3) + operator.upstream(sizes, dtype, 3)
        again = operator.hard_inputs(sizes, dtype, 3)
        assert all(map(numpy.array_equal, hard, again))
        for array, plain in zip(hard, easy, strict=True):
            assert (array.shape, array.dtype) == (plain.shape, plain.dtype)
            assert numpy.isfinite(array).all()
            if array.dtype.kind == "f":
                assert numpy.array_equal(operators.round_to(array, dtype), array)


def test_first_and_last_classes_rows_and_columns_are_among_them() -> None:
    labels = operators.load("cross_entropy").hard_inputs(odd("cross_entropy"), "float32", 1)[1]
    index = operators.load("embedding").hard_inputs(odd("embedding"), "float32", 1)[1]
    assert [*labels[:2], *labels[-2:]] == [0, 0, 10, 10]
    assert [*index[:2], *index[-2:]] == [0, 0, 16, 16]
    (x,) = operators.load("reduce_max").hard_inputs(odd("reduce_max"), "bfloat16", 1)
    assert (x.argmax(axis=1)[0], x.argmax(axis=1)[-1]) == (0, x.shape[1] - 1)
    assert x.max() < 0
    assert (x == x.max(axis=1, keepdims=True)).sum() == len(x)


def ratios(name: str, how: Callable[[str, Call], Call], **parameters: int) -> trials.Values:
    framework = Numpy()
    change(framework, how)
    work: trials.Entry = {"operator": name, "parameters": parameters, "repetitions": 1, "warmup": 0}
    with numpy.errstate(all="ignore"):
        return trials.values(framework, **work)


def by_eights(_: str, call: Call) -> Call:
    """Leaves out the columns after the last whole eight."""
    function, arguments = call

    def run(*operands: Any) -> Any:
        results = function(*operands)
        for array in results if isinstance(results, tuple) else (results,):
            array[..., array.shape[-1] // 8 * 8 :] = 0
        return results

    return run, arguments


def test_a_tail_that_the_case_does_not_have_is_seen() -> None:
    values = ratios("gemm", by_eights, m=8, n=16, k=24)
    assert values["l2_error_ratio"][0] < 1
    assert values["element_error_ratio"][0] > 1
    assert values["grad_element_error_ratio"][0] > 1


def test_a_softmax_that_is_not_shifted_is_seen() -> None:
    def naive(way: str, call: Call) -> Call:
        def run(*operands: Array) -> Array:
            e = numpy.exp(operands[-1])
            shares: Array = e / e.sum(axis=1, keepdims=True)
            return shares

        return (run, call[1]) if way == "operation" else call

    values = ratios("softmax", naive, rows=8, columns=16)
    assert values["l2_error_ratio"][0] < 1
    assert not values["element_error_ratio"][0] < 1


def test_a_maximum_that_begins_with_0_is_seen() -> None:
    def from_zero(way: str, call: Call) -> Call:
        def run(*operands: Array) -> Array:
            highest: Array = operands[-1].max(axis=1, initial=0)
            return highest

        return (run, call[1]) if way == "operation" else call

    values = ratios("reduce_max", from_zero, rows=8, columns=16)
    assert values["l2_error_ratio"] == (0,)
    assert values["element_error_ratio"][0] > 1


SMALL = {
    "cross_entropy": {"rows": 3, "columns": 2},
    "gelu": {"n": 1},
    "softmax_cross_entropy": {"rows": 1, "columns": 2},
}


def differ(name: str, parameters: Mapping[str, int], dtype: str, seed: int, by: float) -> float:
    """`gradient_check` of the right gradients times a factor."""
    operator, sizes = operators.load(name), catalog.OPERATORS[name].complete(parameters)
    upstream = operator.upstream(sizes, dtype, seed)
    formula = (operator, sizes, operator.inputs(sizes, dtype, seed), upstream)
    gradients = tuple(array * by for array in operators.reference_gradients(*formula, dtype))
    bounds = operators.gradient_bounds(*formula, dtype)
    return errors.directional(*formula, gradients, bounds, seed)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_right_gradients_pass_central_differences(name: str, dtype: str) -> None:
    right = [differ(name, SMALL[name], dtype, seed, 1.0) for seed in range(60)]
    assert max(right) < 1
    wrong = [differ(name, SMALL[name], dtype, seed, 1.01) for seed in range(10)]
    assert min(wrong) > 1


def test_central_differences_reach_probabilities_next_to_0() -> None:
    operator, sizes = operators.load("cross_entropy"), {"rows": 500, "columns": 2}
    p, labels = operator.inputs(sizes, "float64", 1)
    p[7, labels[7]] = 2.0**-50
    formula = (operator, sizes, (p, labels), operator.upstream(sizes, "float64", 1))
    right = operators.reference_gradients(*formula, "float64")
    bounds = operators.gradient_bounds(*formula, "float64")
    assert errors.directional(*formula, right, bounds, 1) < 1
    assert errors.directional(*formula, (right[0] * 1.05,), bounds, 1) > 1


SQUARE = """
parameters = ("n",)

def tensors(sizes):
    return {"x": {"shape": (sizes["n"],), "offset": 0.0, "scale": 2.0**65}}

def outputs(sizes):
    return ((sizes["n"],),)

def flops(sizes):
    return sizes["n"]

def forward(c, sizes, x):
    return c.store(x * x)

def backward(c, sizes, upstream, x):
    return (c.store(upstream * x * 2),)

def numpy(context, sizes, x):
    import numpy
    def run(x):
        with numpy.errstate(over="ignore"):
            return RESULT
    return run, (x,)
"""


@pytest.mark.parametrize(
    ("result", "right"),
    [
        ("x * x", True),
        ("-(x * x)", False),
        ("numpy.minimum(x * x, numpy.finfo(x.dtype).max)", False),
        ("numpy.where(x > 2.0**63, numpy.float32('inf'), x * x)", False),
    ],
)
def test_an_overflow_that_is_due_is_right_and_no_other(
    tmp_path: Path, result: str, right: bool
) -> None:
    (tmp_path / "square.py").write_text(SQUARE.replace("RESULT", result))
    work: trials.Entry = {
        "operator": "square",
        "source": str(tmp_path / "square.py"),
        "parameters": {"n": 50},
    }
    values = trials.values(frameworks.load("numpy", "cpu", None, "default"), **work)
    for metric in ("l2_error_ratio", "element_error_ratio"):
        assert (values[metric][0] < 1) is right, metric
    assert values["gradient_check"][0] < 1


RANGE = SQUARE.replace('"offset": 0.0, "scale": 2.0**65', '"offset": 100.0, "scale": 3.3')


def test_the_inputs_of_a_file_are_rounded_to_the_dtype(tmp_path: Path) -> None:
    (tmp_path / "range.py").write_text(RANGE.replace("RESULT", "x"))
    operator, _ = user.load("range", tmp_path / "range.py")
    (x,) = operator.inputs({"n": 100}, "bfloat16", 1)
    assert numpy.array_equal(operators.round_to(x, "bfloat16"), x)
    assert 100 <= x.min() < x.max() <= 103.5
