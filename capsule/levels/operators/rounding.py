"""The arithmetic of a dtype, and how far rounding can carry a result from the exact one.

An operator writes its formula once, against a `Calculator`. With `Exact` it is the reference; with
`Rounding` the same formula is followed by a bound on the error of every element, so that the bound
comes from the dtype and from the lengths of the operation, never from a measurement.

The rules, per element, for values x, y with errors at most dx, dy, and with `a` the unit roundoff
of the arithmetic inside an operation (Higham, Accuracy and Stability of Numerical Algorithms, 2nd
ed. 2002, sections 2.2, 3.1 and 3.5; every operation may lose 2 a, which covers a rounded
constant, a reciprocal instead of a division, and fused or unfused multiply-add):

    x + y, x - y    dx + dy + 2 a |x + y|
    x y             |x| dy + |y| dx + dx dy + 2 a |x y|
    x / y           (dx + |x / y| dy) / (|y| - dy) + 2 a |x / y|
    sum of n        sum of dx + gamma_n sum of (|x| + dx),   gamma_n = n a / (1 - n a), any order
    sum of products of n pairs (products of matrices, convolutions)
                    |x| dy + dx |y| + dx dy + (gamma_n + 2 o) |x| |y|,   o as below
    exp, tanh, ...  dx times the derivative + 2 c a |result|,   c = 4: functions off by 4 ulp
    erf             in float32 and in fewer bits at least `erf_error` in place of 2 c a |result|
    selections (max, relu), copies, changes of shape: dx, nothing new
    store           u |x| + t: the value is rounded to the dtype in memory
    passes          how often the partial sums of a sum may go through memory in the dtype: p times
                    u sum |x||y| more
    halves          see `Rounding.total_by_halves`

Stated errors of functions, in ulp:

    SLEEF (torch: AVX2, AVX512, Arm)    1.0: names with u10, all that `Vectorized` calls for
                                        exp, log, tanh, and erf in float64; 3.5: u35 (sin, cos)
    MKL (torch on x86, contiguous)      1.0: mode VML_HA
    numpy                               2.52: its float32 exponential
    CUDA                                2

The error function of float32 is another one: see `erf_error`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Optional, Protocol

FUNCTION_ULPS = 4

SINGLE = 2.0**-24
"""Unit roundoff of float32, in which functions of 16-bit elements are computed too."""

ERF, ERF_ROUNDINGS = 1.5e-7, 20
ERF_BETWEEN, ERF_PIECES = (0.9875, 0.99994), 18
"""See `erf_error`."""

LIKELY = 4
"""L of the rules in `likely`."""

EXCHANGES = 10
"""Steps in which a block of 1024 threads adds up a sum: in each, half of them hand theirs on."""

Linear = Callable[[Any], Any]
Bilinear = Callable[[Any, Any], Any]
Unit = Optional[Callable[[], Any]]


@dataclass(frozen=True)
class Arithmetic:
    """Arithmetic of a dtype.

    Attributes:
        storage: Unit roundoff u of a tensor's elements in memory.
        inside: Unit roundoff a of the arithmetic within an operation. The two 16-bit types are
            due to be accumulated in float32; as tensor cores truncate instead of rounding (Fasi,
            Higham, Mikaitis and Pranesh, PeerJ Computer Science 7, 2021, e330), that is 2**-23.
        operand: Share o of each factor of a sum of products that may be cut off, 0 where factors
            are taken as they are. Of a float32 the tensor cores of NVIDIA read 11 significant bits
            in TF32 (PTX, section on mma); a library may round to these before. cuBLAS and cuDNN do
            on an H200 (docs/evidence/gpu.md); what they do elsewhere nobody has measured.
        tiny: Error t of a result that underflows: flushed to zero, or for float16 half its
            smallest subnormal number.
        bits: Significant bits that inputs have.
        stored: numpy's dtype that holds the values, `float32` for bfloat16, which numpy lacks.
        wider: numpy's dtype in which the reference is computed: more bits than the dtype under
            test, so it takes another path through other code. `longdouble` has 64 bits on x86 and
            113 on Linux on Arm; where it is no wider than a double it still uses neither BLAS nor
            SIMD exponentials.
        bytes: Size of an element in memory.
    """

    storage: float
    inside: float
    operand: float
    tiny: float
    bits: int
    stored: str
    wider: str
    bytes: int


ARITHMETIC = {
    "float64": Arithmetic(2.0**-53, 2.0**-53, 0.0, 2.0**-1022, 53, "float64", "longdouble", 8),
    "float32": Arithmetic(2.0**-24, 2.0**-24, 0.0, 2.0**-126, 24, "float32", "float64", 4),
    "tf32": Arithmetic(2.0**-24, 2.0**-23, 2.0**-10, 2.0**-126, 24, "float32", "float64", 4),
    "bfloat16": Arithmetic(2.0**-8, 2.0**-23, 0.0, 2.0**-126, 8, "float32", "float64", 2),
    "float16": Arithmetic(2.0**-11, 2.0**-23, 0.0, 2.0**-25, 11, "float16", "float64", 2),
}


def erf_error(erf: Any) -> Any:
    """Return how far an error function in float32 can be off, for its exact sizes in [0, 1].

    torch's vectors (`Vectorized<float>::erf` of AVX2 and AVX512, aten/src/ATen/cpu/vec) and oneDNN
    (its gelu up to AVX2, and each gradient of it; jit_uni_eltwise_injector.cpp) compute formula
    7.1.26 of Abramowitz and Stegun (Handbook of Mathematical Functions, 1964), for z >= 0

        erf(z) = 1 - q,   q = t r(t) exp(-z**2),   t = 1 / (1 + p z),   r of degree 4

    which is off by at most 1.5e-7 without any rounding. What q loses is little beside an erf near
    1, and much beside one near 0. In units of u q, with u = 2**-24 (running error analysis, Higham
    2002, section 5.1; every operation, constant and fused multiply-add loses at most u of its
    result):

        exp(-z**2)      3.5, and z**2 for its rounded argument: SLEEF's is off by 1 ulp, which is 2
                        units; oneDNN's polynomial by 1.6 units, and 1.9 by its own roundings
        t               2 + p z / (1 + p z), times t (t r(t))' / t r(t) < 3.5
        r(t)            < 7.7, the sum of all constants and partial sums by their powers of t
        products        1, and u |erf| for the last sum

    So the error is at most 1.5e-7 + u (|erf| + 20 (1 - |erf|)), where z**2 is more than its share
    of the 20 but q next to nothing.

    oneDNN's gelu for AVX512 takes a polynomial of degree 5 for each quarter of a binade of its
    argument x. The terms of those between 2.5 and 4 are far larger than their sum: by the same
    analysis of its coefficients the errors come to 18 u there, where erf(x / sqrt 2) is in
    `ERF_BETWEEN`, and to less than 8 u |erf|, which other functions are granted, elsewhere.
    """
    formula = ERF + SINGLE * (erf + ERF_ROUNDINGS * (1 - erf))
    first, last = ERF_BETWEEN
    return formula + (erf > first) * (erf < last) * (ERF_PIECES * SINGLE - formula)


def as_doubles(x: Any, like: Any) -> Any:
    """Return an array in float64, where another one lies: in the host's memory or on a device."""
    import numpy

    # numpy's scalars lie in the host's memory, and cannot be named as `like`
    place = like if hasattr(like, "__array_function__") else None
    return numpy.asarray(x, numpy.float64, like=place)


class Calculator(Protocol):
    """Interface that formulas use: `Exact` on arrays, `Rounding` on `Rounded` ones."""

    def exp(self, x: Any) -> Any:
        """Return the exponential."""

    def log(self, x: Any) -> Any:
        """Return the natural logarithm."""

    def tanh(self, x: Any) -> Any:
        """Return the hyperbolic tangent."""

    def sqrt(self, x: Any) -> Any:
        """Return the square root."""

    def erf(self, x: Any) -> Any:
        """Return the error function."""

    def bilinear(self, function: Bilinear, x: Any, y: Any, terms: int, passes: int = 0) -> Any:
        """`function(x, y)`, of which each element is a sum of at most `terms` products."""

    def linear(self, function: Linear, x: Any, terms: int, passes: int = 0) -> Any:
        """`function(x)`, of which each element is a sum of at most `terms` elements of x."""

    def select(self, function: Linear, x: Any) -> Any:
        """`function(x)`, which only picks, copies, repeats or moves elements, or writes zeros."""

    def total(self, x: Any, axis: Any = None, passes: int = 0) -> Any:
        """Sum over axes, which stay with length 1."""

    def total_by_halves(self, x: Any, axis: Any, unit: Unit = None) -> Any:
        """Sum terms that threads round to the dtype, with half of all partial sums."""

    def between(self, x: Any) -> Any:
        """Return a value that may be stored between two operations that others fuse."""

    def sigmoid(self, x: Any) -> Any:
        """1 / (1 + exp(-x))."""

    def centre(self, x: Any, mean: Any) -> Any:
        """`x - mean`, which may be taken of their products with a scale."""

    def store(self, x: Any) -> Any:
        """Return the value as a tensor in memory has it, rounded to the dtype."""

    def value(self, x: Any) -> Any:
        """Return the bare array, for decisions: a mask, a maximum."""


class Exact:
    """Plain numpy, in the dtype of what it is given."""

    def exp(self, x: Any) -> Any:
        """Return the exponential."""
        import numpy

        return numpy.exp(x)

    def log(self, x: Any) -> Any:
        """Return the natural logarithm."""
        import numpy

        return numpy.log(x)

    def tanh(self, x: Any) -> Any:
        """Return the hyperbolic tangent."""
        import numpy

        return numpy.tanh(x)

    def sqrt(self, x: Any) -> Any:
        """Return the square root."""
        import numpy

        return numpy.sqrt(x)

    def erf(self, x: Any) -> Any:
        """Return the error function, of what doubles hold by the C library's or the device's.

        Else by the series 2/sqrt(pi) exp(-x**2) sum of 2**n x**(2n+1) / (2n+1)!!. All its terms
        have one sign, so it loses nothing to cancellation; its sum is off by several roundings.
        """
        import numpy

        if hasattr(x, "erf"):
            return x.erf()
        if x.dtype.itemsize <= numpy.dtype("float64").itemsize:
            return numpy.vectorize(math.erf, otypes="d")(x).astype(x.dtype)
        square = x * x
        term = x + square * 0
        total = term.copy()
        # after the largest term each next one is at most half of it once 2n + 3 >= 4 x**2
        for n in range(80 + int(4 * float(square.max(initial=0)))):
            term *= 2 * square / (2 * n + 3)
            total += term
        # acos(-1) in the dtype of x: math.pi would cut longdouble to 53 bits
        pi = numpy.arccos(-numpy.ones((), dtype=square.dtype))
        return total * numpy.exp(-square) * (2 / numpy.sqrt(pi))

    def bilinear(self, function: Bilinear, x: Any, y: Any, terms: int, passes: int = 0) -> Any:  # noqa: ARG002
        """Return a result of which each element is a sum of at most `terms` products."""
        return function(x, y)

    def linear(self, function: Linear, x: Any, terms: int, passes: int = 0) -> Any:  # noqa: ARG002
        """`function(x)`, of which each element is a sum of at most `terms` elements of x."""
        return function(x)

    def select(self, function: Linear, x: Any) -> Any:
        """`function(x)`, which only picks, copies, repeats or moves elements, or writes zeros."""
        return function(x)

    def total(self, x: Any, axis: Any = None, passes: int = 0) -> Any:  # noqa: ARG002
        """Sum over axes, which stay with length 1."""
        return x.sum(axis=axis, keepdims=True)

    def total_by_halves(self, x: Any, axis: Any, unit: Unit = None) -> Any:  # noqa: ARG002
        """Sum over axes, which stay with length 1."""
        return self.total(x, axis)

    def between(self, x: Any) -> Any:
        """Return the value unchanged."""
        return x

    def sigmoid(self, x: Any) -> Any:
        """Return the formula as it stands."""
        return 1 / (self.exp(-x) + 1)

    def centre(self, x: Any, mean: Any) -> Any:
        """Return the difference."""
        return x - mean

    def store(self, x: Any) -> Any:
        """Return the value as a tensor in memory has it."""
        return x

    def value(self, x: Any) -> Any:
        """Return the bare array, for decisions: a mask, a maximum."""
        return x


EXACT = Exact()


class Rounded:
    """An array with a bound on the error of each of its elements, both float64 of one shape."""

    __array_ufunc__ = None  # makes `array * rounded` come to __rmul__

    def __init__(self, value: Any, error: Any, inside: float) -> None:
        self.value = value
        self.error = error
        self.inside = inside

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the value."""
        shape: tuple[int, ...] = self.value.shape
        return shape

    def _new(self, value: Any, error: Any, roundings: float = 2) -> Rounded:
        return Rounded(value, error + roundings * self.inside * abs(value), self.inside)

    def __neg__(self) -> Rounded:
        return Rounded(-self.value, self.error, self.inside)

    def __add__(self, other: Any) -> Rounded:
        value, error = _parts(other)
        return self._new(self.value + value, self.error + error)

    def __sub__(self, other: Any) -> Rounded:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Rounded:
        return self.__neg__().__add__(other)

    def __mul__(self, other: Any) -> Rounded:
        value, error = _parts(other)
        spread = abs(self.value) * error + (abs(value) + error) * self.error
        return self._new(self.value * value, spread)

    def __truediv__(self, other: Any) -> Rounded:
        value, error = _parts(other)
        quotient = self.value / value
        least = abs(value) - error
        if (least <= 0).any() if hasattr(least, "any") else least <= 0:
            raise ValueError("no error bound: a divisor may be 0")
        return self._new(quotient, (self.error + abs(quotient) * error) / least)

    def __rtruediv__(self, other: Any) -> Rounded:
        return Rounded(other + 0 * self.value, 0 * self.error, self.inside) / self

    __radd__ = __add__
    __rmul__ = __mul__


def _parts(other: Any) -> tuple[Any, Any]:
    return (other.value, other.error) if isinstance(other, Rounded) else (other, 0.0)


class Rounding:
    """Values in float64 with the bounds of one dtype's arithmetic."""

    def __init__(self, arithmetic: Arithmetic, extra: float = 0.0) -> None:
        self._inside = arithmetic.inside + extra
        self._arithmetic = arithmetic

    def enter(self, x: Any) -> Rounded:
        """Return an input, which is exact."""
        import numpy

        value = as_doubles(x, x)
        return Rounded(value, numpy.zeros_like(value), self._inside)

    def exp(self, x: Any) -> Rounded:
        """Return the exponential; dx makes it wrong by a factor."""
        import numpy

        value = numpy.exp(x.value)
        # what vanishes, as of a mask's infinity, is 0 or next to it, however far x is off
        error = numpy.where(numpy.isneginf(x.value), 0.0, x.error)
        most = numpy.exp(numpy.where(value > 0, -numpy.inf, x.value + error))
        return self._function(value, value * numpy.expm1(numpy.where(value > 0, error, 0.0)) + most)

    def log(self, x: Any) -> Rounded:
        """Return the natural logarithm, off by dx / (x - dx)."""
        import numpy

        return self._function(numpy.log(x.value), x.error / (x.value - x.error))

    def tanh(self, x: Any) -> Rounded:
        """Return the hyperbolic tangent: its derivative is at most 1."""
        import numpy

        return self._function(numpy.tanh(x.value), x.error)

    def sqrt(self, x: Any) -> Rounded:
        """Return the square root; its error is at most dx over itself."""
        import numpy

        value = numpy.sqrt(x.value)
        return self._function(value, x.error / value)

    def erf(self, x: Any) -> Rounded:
        """Return the error function: its derivative is at most 2/sqrt(pi) < 1.2."""
        value = EXACT.erf(x.value)
        return self._function(value, 1.2 * x.error + self.erf_excess(value))

    def erf_excess(self, erf: Any) -> Any:
        """Return how much further than other functions an exact error function can be off."""
        import numpy

        size = abs(erf)
        if self._arithmetic.inside < SINGLE:
            return 0 * size
        excess = erf_error(size) - 2 * FUNCTION_ULPS * self._inside * size
        return numpy.where(excess > 0, excess, 0.0)

    def bilinear(self, function: Bilinear, x: Any, y: Any, terms: int, passes: int = 0) -> Rounded:
        """Return a sum of products; see the module's rules."""
        x, y = self._with_error(x), self._with_error(y)
        growth = self._gamma(terms) + 2 * self._arithmetic.operand
        growth += passes * self._arithmetic.storage
        ax, ay = abs(x.value), abs(y.value)
        error = growth * function(ax + x.error, ay + y.error)
        if x.error.any():
            error = error + function(x.error, ay + y.error)
        if y.error.any():
            error = error + function(ax, y.error)
        return Rounded(function(x.value, y.value), error, self._inside)

    def linear(self, function: Linear, x: Any, terms: int, passes: int = 0) -> Rounded:
        """Return a sum; see the module's rules."""
        x = self._with_error(x)
        growth = self._gamma(terms) + passes * self._arithmetic.storage
        error = function(x.error) + growth * function(abs(x.value) + x.error)
        return Rounded(function(x.value), error, self._inside)

    def select(self, function: Linear, x: Any) -> Rounded:
        """Return the same selection from values and errors."""
        x = self._with_error(x)
        return Rounded(function(x.value), abs(function(x.error)), self._inside)

    def total(self, x: Any, axis: Any = None, passes: int = 0) -> Rounded:
        """Sum over axes, which stay with length 1."""

        def add_up(array: Any) -> Any:
            return array.sum(axis=axis, keepdims=True)

        terms = x.value.size // max(1, add_up(x.value).size)
        return self.linear(add_up, x, terms, passes)

    def total_by_halves(self, x: Any, axis: Any, unit: Unit = None) -> Rounded:
        """Sum terms that threads round to the dtype, with half of all partial sums.

        torch on CUDA does so for the gradients of a batch normalization in 16 bits. Its kernels
        sum in float32, but a pair of sums is made of two numbers of the dtype (`Float2` in
        aten/src/ATen/native/cuda/Normalization.cuh): rounded are each product, and each sum that
        a thread gets from another one. Of m sums that are left, m / 2 go to the others, in
        `EXCHANGES` steps from m = 1024 to 2.

        Where all terms together come to s, and have the squares q**2 (see `likely`), each of m
        sums has the square (s / m)**2 + q**2 / m, half of them s**2 / 2 m + q**2 / 2. With the
        terms themselves the errors of all steps come to

            L u sqrt(s**2 / 2 + (EXCHANGES / 2 + 1) q**2)

        and to L t sqrt(n) unit where n products underflow. A dtype that has as many bits as its
        sums loses nothing by that.

        Args:
            x: Terms.
            axis: See `total`.
            unit: Gives what products are multiplied by once they are rounded; None where the terms
                are numbers of the dtype.
        """
        total = self.total(x, axis)
        storage, tiny = self._arithmetic.storage, self._arithmetic.tiny
        if storage <= self._arithmetic.inside:
            return total
        terms = self.value(x)
        squares = (terms * terms).sum(axis=axis, keepdims=True)
        lost = storage * (total.value**2 / 2 + (EXCHANGES / 2 + 1) * squares) ** 0.5
        if unit is not None:
            lost = lost + tiny * (terms.size / squares.size) ** 0.5 * abs(self.value(unit()))
        return Rounded(total.value, total.error + LIKELY * lost, self._inside)

    def sum_up(self, value: Any, walk: Any, terms: int, passes: int = 0) -> Rounded:
        """Return a value of which nothing is known but what it is summed from.

        Args:
            value: The exact one.
            walk: The root of the sum of the squares of its terms.
            terms: Number of terms, at most.
            passes: See `linear`.
        """
        # the sum of their sizes is at most that
        most = walk * terms**0.5
        error = (self._gamma(terms) + passes * self._arithmetic.storage) * most
        return self._function(value, error)

    def between(self, x: Any) -> Rounded:
        """Return the value unchanged: in the norm, this rounding is negligible."""
        return self._with_error(x)

    def sigmoid(self, x: Any) -> Rounded:
        """Compute the sigmoid by its steps, or by a rational function of the same accuracy."""
        steps: Rounded = 1 / (self.exp(-x) + 1)
        return Rounded(steps.value, steps.error + FUNCTION_ULPS * self._inside, self._inside)

    def centre(self, x: Any, mean: Any) -> Rounded:
        """Return the difference: what products add to it is little in the norm."""
        difference: Rounded = x - mean
        return difference

    def store(self, x: Any) -> Rounded:
        """Return the value rounded to the dtype in memory."""
        x = self._with_error(x)
        rounding = self._arithmetic.storage * (abs(x.value) + x.error) + self._arithmetic.tiny
        return Rounded(x.value, x.error + rounding, self._inside)

    def value(self, x: Any) -> Any:
        """Return the value without its error."""
        return x.value if isinstance(x, Rounded) else x

    def _with_error(self, x: Any) -> Rounded:
        return x if isinstance(x, Rounded) else self.enter(x)

    def _function(self, value: Any, error: Any) -> Rounded:
        error = error + 2 * FUNCTION_ULPS * self._inside * abs(value)
        return Rounded(value, error, self._inside)

    def _gamma(self, terms: int) -> float:
        share = terms * self._inside
        if share >= 1:
            raise ValueError(
                f"no error bound for sums of {terms} terms at unit roundoff {self._inside:g}"
            )
        return share / (1 - share)
