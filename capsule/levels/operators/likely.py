"""Probable error of sums, and the largest probable error of each element of a result.

Sums. The certain bound of a sum of n products, n a sum|x||y|, is met only if all roundings conspire
and all partial sums grow; with n in the thousands it is hundreds of times what happens, and would
let an accumulation in 16 bits pass for float32. So with s the sum and q the root of sum (x y)**2:

    partial sums        m = |s| + q in the root mean square: a share of s, and a random walk (Higham
                        and Mary, SIAM J. Sci. Comput. 42, 2020, A3427)
    n additions         L sqrt(n) a m, roundings to nearest being of mean 0 (same, 41, 2019, A2815);
                        n a m where tensor cores truncate (tf32, bfloat16, float16)
    p passes            L sqrt(p) u m, where partial sums go through memory in the dtype
    cut operands        o (|s| + L q), see below

L = 4 is exceeded with a probability of at most 2 exp(-L**2 / 2) < 0.1 % per element (Hoeffding).

An operand that is cut is off by 0 to o of itself: by o / 2, which of two operands takes the share o
from s, and by up to o / 2 more or less, of mean 0: 2 L (o / 2) q. One that is rounded is off by the
second alone.

`Likely` has these in place of the certain ones, `PerElement` the smaller of both for each element:
one bound is proven, the other is some twelve deviations of a random walk. Fast products (Strassen,
Winograd, by way of a Fourier transform) are as good in the norm of the result but for a factor, and
not for each element: they mix large and small ones (Higham 2002, chapter 23). So no element of a
sum of products is held to less than `FAST` times the root mean square of the bounds of all of them,
nor, of what is lost beside passes, to less than `MIXED` times the largest, and in sums of `SHORT`
terms or fewer to less than twice that; the rounding to the dtype in memory comes on top, for each
its own. Of the root mean square itself Strassen's product takes a tenth, and Winograd's
F(4 x 4, 3 x 3) 1.2 in float32, of sums of 9 products 11. Next to an element that is a thousand
times as large as all others Winograd's takes up to 1.3 times the largest bound, and Strassen's
product of a column and a row twice that.

A mean of few is as far off as what it is taken around: of 18 values, the first of which was the
furthest from their mean, what is left of the first had a mean that moved an element of a batch
normalization by 1.002 of its bound. So sums of `SHORT` terms or fewer may lose twice as much.
"""

from __future__ import annotations

import math
from typing import Any

from .rounding import LIKELY, Bilinear, Linear, Rounded, Rounding

FAST, MIXED, SHORT = 8, 2, 32
"""See the module."""

OPERATIONS = 3
"""Elementary ones that a framework may make one of: each rounds its results to the dtype, as of
`g * (1 - y) * y` the last elements of torch's vectors do, or a scale that is a constant of it."""

TRUNCATED = 2.0**-23
"""`Arithmetic.inside` where tensor cores truncate float32 sums."""


class Likely(Rounding):
    """`Rounding` with the module's rules for sums; errors of what is summed add up as before."""

    def bilinear(self, function: Bilinear, x: Any, y: Any, terms: int, passes: int = 0) -> Rounded:
        """Return a sum of products."""
        x, y = self._with_error(x), self._with_error(y)
        value = function(x.value, y.value)
        walk = function(x.value * x.value, y.value * y.value) ** 0.5
        error = self._growth(value, walk, terms, passes)
        error = error + self._arithmetic.operand * (abs(value) + LIKELY * walk)
        ax, ay = abs(x.value), abs(y.value)
        if x.error.any():
            error = error + function(x.error, ay + y.error)
        if y.error.any():
            error = error + function(ax, y.error)
        return Rounded(value, error, self._inside)

    def linear(self, function: Linear, x: Any, terms: int, passes: int = 0) -> Rounded:
        """Return a sum."""
        x = self._with_error(x)
        value = function(x.value)
        walk = function(x.value * x.value) ** 0.5
        error = function(x.error) + self._growth(value, walk, terms, passes)
        return Rounded(value, error, self._inside)

    def sum_up(self, value: Any, walk: Any, terms: int, passes: int = 0) -> Rounded:
        """Return a value of which nothing is known but what it is summed from."""
        return self._function(value, self._growth(value, walk, terms, passes))

    def _growth(self, value: Any, walk: Any, terms: int, passes: int) -> Any:
        return self._share(terms, passes) * (abs(value) + walk)

    def _share(self, terms: int, passes: int) -> float:
        """Return the relative losses of a sum and of its random walk."""
        truncates = self._arithmetic.inside == TRUNCATED
        additions = terms if truncates else LIKELY * math.sqrt(terms)
        return additions * self._inside + LIKELY * math.sqrt(passes) * self._arithmetic.storage


class PerElement(Likely):
    """The module's bounds of each element by itself."""

    def bilinear(self, function: Bilinear, x: Any, y: Any, terms: int, passes: int = 0) -> Rounded:
        """Return a sum of products."""
        import numpy

        likely = super().bilinear(function, x, y, terms, passes)
        certain = Rounding.bilinear(self, function, x, y, terms, passes)
        error = _smaller(likely.error, certain.error)
        # scaled, for the square of the smallest float64 would be 0
        most = float(error.max(initial=0.0))
        scale = most or 1.0
        middle = scale * float(numpy.sqrt(numpy.mean((error / scale) ** 2)))
        beside = self._share(terms, 0) / self._share(terms, passes)
        few = 2 if terms <= SHORT else 1
        least = max(FAST * middle, beside * few * max(FAST * middle, MIXED * most))
        return Rounded(likely.value, numpy.where(error > least, error, least), self._inside)

    def between(self, x: Any) -> Rounded:
        """Stored: where a bias takes most of a sum away, what is left has its rounding."""
        return self.store(x)

    def store(self, x: Any) -> Rounded:
        """Return the value rounded to the dtype as often as an operation may be made of others."""
        x = self._with_error(x)
        rounding = self._arithmetic.storage * (abs(x.value) + x.error) + self._arithmetic.tiny
        return Rounded(x.value, x.error + OPERATIONS * rounding, self._inside)

    def centre(self, x: Any, mean: Any) -> Rounded:
        """Return the difference of products, each of which may be kept in the dtype.

        So do frameworks that normalize as `x scale + (bias - mean scale)`, of which an element near
        the mean is left as what large ones differ by.
        """
        difference = super().centre(x, mean)
        error = 2 * self._arithmetic.storage * (abs(x.value) + abs(mean.value))
        return Rounded(difference.value, difference.error + error, self._inside)

    def linear(self, function: Linear, x: Any, terms: int, passes: int = 0) -> Rounded:
        """Return a sum."""
        likely = super().linear(function, x, terms, passes)
        certain = Rounding.linear(self, function, x, terms, passes)
        few = 2 if terms <= SHORT else 1
        return Rounded(likely.value, _smaller(few * likely.error, certain.error), self._inside)


def _smaller(one: Any, other: Any) -> Any:
    """Return the smaller of two elements; numpy's minimum is a measured operation."""
    import numpy

    return numpy.where(one < other, one, other)
