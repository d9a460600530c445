"""Errors that kernels of elementwise operators state, and what bounds make of them."""

from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from capsule.levels import catalog, frameworks, operators
from capsule.levels.instruments import errors
from capsule.levels.operators import rounding
from capsule.levels.operators.rounding import ARITHMETIC, SINGLE, Rounding, erf_error
from tests.support.jobs import needs_torch

Array = NDArray[Any]

# Abramowitz and Stegun, formula 7.1.26
P = 0.3275911
A = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
SHARES = numpy.linspace(0, 6, 60_001)
ERF = operators.EXACT.erf(SHARES)


def lose(exponential: float) -> Array:
    """The running error bound of the formula in float32, for an exponential off by so many units.

    Every constant, operation and fused multiply-add loses a unit of its result.
    """
    t = 1 / (1 + P * SHARES)
    of_t = 2 + P * SHARES / (1 + P * SHARES)
    power = numpy.exp(-(SHARES**2))
    partial = numpy.full_like(t, A[-1])
    lost = abs(partial)
    for constant in A[-2::-1]:
        partial = partial * t + constant
        lost = lost * t + abs(constant) + abs(partial)
    q = t * partial * power
    slope = numpy.polyval(numpy.polyder((*A[::-1], 0)), t)
    units = power * t * lost + power * t * abs(slope) * of_t
    units += q * (exponential + SHARES**2 + 1) + (1 - q)
    total: Array = abs(1 - q - ERF) + SINGLE * units
    return total


def test_the_formula_in_exact_arithmetic_is_as_good_as_its_authors_state() -> None:
    t = 1 / (1 + P * SHARES)
    q = numpy.polyval((*A[::-1], 0), t) * numpy.exp(-(SHARES**2))
    assert 1e-7 < abs(1 - q - ERF).max() <= rounding.ERF


def test_the_error_of_the_error_function_is_what_its_roundings_come_to_and_little_more() -> None:
    granted, derived = erf_error(ERF), lose(3.5)
    assert (derived <= granted).all()
    # what it grants beside is the share of the 1.5e-7 that the formula does not need everywhere
    first, last = rounding.ERF_BETWEEN
    of_formula = (first >= ERF) | (last <= ERF)
    assert (granted - derived)[of_formula].max() < rounding.ERF + 3 * SINGLE


def bound(dtype: str, x: Array) -> Array:
    """The bound of an exact argument's error function."""
    c = Rounding(ARITHMETIC[dtype])
    error: Array = c.erf(c.enter(x)).error
    return error


def test_float64_has_an_error_function_of_its_own_precision() -> None:
    x = numpy.linspace(-5, 5, 1001)
    assert (bound("float64", x) == 8 * 2.0**-53 * abs(operators.EXACT.erf(x))).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_others_grant_what_is_larger_and_no_more(dtype: str) -> None:
    x = numpy.linspace(-5, 5, 1001)
    size = abs(operators.EXACT.erf(x))
    plain = 8 * ARITHMETIC[dtype].inside * size
    expected = numpy.maximum(plain, erf_error(size))
    assert bound(dtype, x) == pytest.approx(expected, rel=1e-12)
    # where an error function is near 1, nothing is granted that was not before
    assert (bound(dtype, x)[:100] == plain[:100]).all()


def single(x: Array) -> Array:
    """The formula of torch's vectors, each operation rounded to float32."""
    z = abs(x).astype("float32")
    t = numpy.float32(1) / (numpy.float32(P) * z + numpy.float32(1))
    r = numpy.full_like(t, A[-1])
    for constant in A[-2::-1]:
        r = r * t + numpy.float32(constant)
    erf = numpy.float32(1) - r * (t * numpy.exp(-z * z))
    result: Array = numpy.copysign(erf, x.astype("float32"))
    return result


def gelu(n: int, seed: int) -> tuple[operators.Operator, Any, tuple[Array, ...]]:
    operator = operators.load("gelu")
    sizes = catalog.OPERATORS["gelu"].complete({"n": n})
    return operator, sizes, operator.inputs(sizes, "float32", seed)


@pytest.mark.parametrize("seed", range(17, 27))
def test_a_gelu_by_the_formula_in_float32_stays_below_half_of_its_bound(seed: int) -> None:
    operator, sizes, (x,) = gelu(100_000, seed)
    half = numpy.float32(0.5)
    result = x * half * (numpy.float32(1) + single(x * numpy.float32(0.5**0.5)))
    assert result.dtype == numpy.float32
    due = operators.due(operator, sizes, (x,), "float32")
    ratio = errors.worst_element((result,), due)
    assert 0.2 < ratio < 0.5
    reference = operators.reference(operator, sizes, (x,), "float32")
    limits = operators.bounds(operator, sizes, (x,), "float32")
    assert errors.worst_ratio((result,), reference, limits) < 0.5


@pytest.mark.parametrize("n", [10, 1_000, 100_000])
def test_the_tanh_form_is_no_gelu(n: int) -> None:
    operator, sizes, (x,) = gelu(n, 17)
    wide = x.astype("float64")
    inner = (2 / numpy.pi) ** 0.5 * (wide + 0.044715 * wide**3)
    result = (wide / 2 * (1 + numpy.tanh(inner))).astype("float32")
    due = operators.due(operator, sizes, (x,), "float32")
    assert errors.worst_element((result,), due) > 10
    reference = operators.reference(operator, sizes, (x,), "float32")
    limits = operators.bounds(operator, sizes, (x,), "float32")
    assert errors.worst_ratio((result,), reference, limits) > 10


@pytest.mark.torch
@needs_torch
@pytest.mark.parametrize("name", ["gelu", "gelu_backward", "erf"])
@pytest.mark.parametrize("middle", [-3.5, -2.0, -0.3, 0.0])
def test_an_operation_of_a_module_is_granted_its_error_function(name: str, middle: float) -> None:
    """Also where all values are so far below 0 that little is left of 1 + erf."""
    import torch

    from capsule.levels.frameworks.torch.moves import Limits

    generator = numpy.random.default_rng(3)
    x = torch.from_numpy(generator.uniform(middle - 0.2, middle + 0.2, 1000).astype("float32"))
    function = getattr(torch.ops.aten, name).default
    operands = (torch.ones_like(x), x) if name == "gelu_backward" else (x,)
    wide = tuple(one.double() for one in operands)
    (due,), (limit,) = Limits("float32", "label").find(function, wide, {})
    assert limit is not None
    for onednn in (True, False):
        before = torch.backends.mkldnn.set_flags(onednn)
        try:
            off = (function(*operands).double() - due).norm()
        finally:
            torch.backends.mkldnn.set_flags(before[0])
        assert float(off / limit.norm()) < 0.7
    assert float(0.01 * due.norm() / limit.norm()) > 1


@pytest.mark.torch
@needs_torch
def test_torch_in_this_process_stays_below_half_of_the_bounds_of_gelu() -> None:
    framework = frameworks.load("torch", "cpu", 1, "default")
    operator, sizes, (x,) = gelu(100_000, 27)
    function, operands = framework.operators.operation(
        operator, sizes, (framework.from_numpy(x, "float32"),)
    )
    result = framework.to_numpy(function(*operands))
    due = operators.due(operator, sizes, (x,), "float32")
    assert errors.worst_element((result,), due) < 0.5
