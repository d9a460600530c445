"""Least squares where each value is off by a part of itself, as times are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from capsule.stats import special

_SINGULAR = 1e-6


@dataclass(frozen=True)
class RelativeFit:
    """Coefficients, none below zero, of what rows of factors give.

    Attributes:
        coefficients: One for each column of factors.
        spread: Standard deviation of values from what the coefficients give, in parts of these.
        df: Degrees of freedom that it was estimated with.
        covariance: Of the coefficients, as if they could be below zero: wider at that bound.
    """

    coefficients: tuple[float, ...]
    spread: float
    df: int
    covariance: NDArray[numpy.float64]

    def give(self, factors: Sequence[float]) -> float:
        """What the coefficients give for a row of factors."""
        return float(numpy.dot(self.coefficients, factors))

    def reach(self, factors: Sequence[float], *, alpha: float, value: bool = True) -> float:
        """Half of Student's interval around `give`.

        Args:
            factors: A row.
            alpha: Of both sides together.
            value: Whether it is to hold a further value, and not only what all of them scatter
                around.
        """
        row = numpy.asarray(factors)
        own = self.spread * self.give(factors) if value else 0.0
        error = float(numpy.sqrt(row @ self.covariance @ row + own**2))
        return student_quantile(self.df, alpha) * error


def fit_relative(rows: Sequence[Sequence[float]], values: Sequence[float]) -> RelativeFit | None:
    """Find coefficients c >= 0 that minimize the sum of ((v - row c) / v)^2.

    As Lawson and Hanson's, "Solving Least Squares Problems" (1974), chapter 23, which for so few
    columns is: whatever would be below zero is zero.

    Args:
        rows: Of factors, none below zero.
        values: Above zero, one for each row.

    Returns:
        None where there is no more than a value for each coefficient, or the rows do not tell the
        coefficients apart.

    >>> fit = fit_relative([[1, 0], [1, 1], [1, 2]], [2.0, 5.0, 8.0])
    >>> [round(one, 6) for one in fit.coefficients], fit.df, round(fit.give([1, 10]), 6)
    ([2.0, 3.0], 1, 32.0)
    """
    count, columns = len(values), len(rows[0]) if rows else 0
    if count <= columns:
        return None
    scaled = numpy.asarray(rows, numpy.float64) / numpy.asarray(values)[:, None]
    lengths = numpy.linalg.norm(scaled, axis=0)
    if not lengths.all():
        return None
    directions = scaled / lengths
    if numpy.linalg.svd(directions, compute_uv=False)[-1] < _SINGULAR:
        return None
    kept = list(range(columns))
    while True:
        parts = numpy.linalg.lstsq(directions[:, kept], numpy.ones(count), rcond=None)[0]
        if (parts >= 0).all():
            break
        kept.remove(kept[int(parts.argmin())])
    coefficients = numpy.zeros(columns)
    coefficients[kept] = parts / lengths[kept]
    rest = 1 - scaled @ coefficients
    df = count - columns
    variance = float(rest @ rest) / df
    return RelativeFit(
        coefficients=tuple(map(float, coefficients)),
        spread=variance**0.5,
        df=df,
        covariance=variance * numpy.linalg.inv(scaled.T @ scaled),
    )


def student_quantile(df: float, alpha: float) -> float:
    """How many standard errors to each side Student's interval at 1 - `alpha` reaches."""
    return -float(special.stdtrit(df, alpha / 2))
