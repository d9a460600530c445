"""The series of values inside one run: warm-up, spread, and its worth in independent samples."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from capsule.stats import special

_BATCH = 5
# of the largest value: a mean below it may be the rounding of a sum that is zero
_NO_MEAN = 2.0**-26

Series = Sequence[float] | NDArray[np.float64]


def mser5(values: Series) -> int:
    """Return the number of leading values to cut for the smallest standard error of the rest.

    White's marginal standard error rule on means of batches of five; at most half is cut, and
    nothing from fewer than four batches.

    >>> mser5([9.0] * 10 + [1.0, 2.0, 1.5, 1.8, 1.2] * 20)
    10
    """
    batches = _scale(values)
    count = len(batches) // _BATCH
    if count < 4:
        return 0
    means = batches[: count * _BATCH].reshape(count, _BATCH).mean(axis=1)
    means -= means[count // 2 :].mean()  # sums of squares of what is left are then small
    left = count - np.arange(count // 2 + 1)
    total, squares = (
        np.cumsum(part[::-1])[::-1][: count // 2 + 1] for part in (means, means * means)
    )
    variance = np.maximum(squares - total * total / left, 0.0) / left
    error = variance / left
    # rounding must not make one of two equal errors the smaller
    return _BATCH * int(np.argmax(error <= error.min() * (1 + 1e-9) + 1e-30))


def effective_sample_size(values: Series) -> float:
    """Return a series' number of independent samples: its length over its correlation time.

    Autocorrelations are summed as long as their pairs stay positive and decreasing (Geyer's initial
    monotone sequence). Never more than the length, at least 1 for a series that is not empty.

    >>> effective_sample_size([1.0, 2.0, 1.0, 2.0, 1.0, 2.0])
    6.0
    """
    series = _scale(values)
    n = len(series)
    if n < 4 or not series.any():
        return float(n)
    series = series - series.mean()
    size = 1 << (2 * n - 1).bit_length()  # padded, so that the end does not meet the beginning
    spectrum = np.fft.rfft(series, size)
    covariance = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, size)[: n - n % 2]
    pairs = (covariance[0::2] + covariance[1::2]) / covariance[0]
    negative = pairs <= 0
    if negative.any():
        pairs = pairs[: int(np.argmax(negative))]
    correlation_time = 2 * float(np.minimum.accumulate(pairs).sum()) - 1 if len(pairs) else 1.0
    effective = min(float(n), max(1.0, n / max(correlation_time, 1.0)))
    return float(f"{effective:.9g}")  # a transform's last digits depend on the machine


def median_interval(values: Sequence[float], *, level: float) -> tuple[float, float] | None:
    """Return two of the values that hold the median between them with a probability of at least
    `level`.

    The nonparametric interval by binomial ranks, as benchmarks in computing report it (Hoefler and
    Belli, SC15, section 3.1.3): it tells how well the values of this one run place their median,
    and nothing of other runs. None for fewer values than it needs: 6 at a level of 0.95.

    Args:
        values: Finite, each drawn independently of the others from one distribution.
        level: Above 0 and below 1.

    >>> median_interval([3.0, 1.0, 2.0, 6.0, 5.0, 4.0], level=0.95)
    (1.0, 6.0)
    """
    return percentile_interval(values, 0.5, level=level)


def percentile_interval(
    values: Sequence[float], share: float, *, level: float, worth: float | None = None
) -> tuple[float, float] | None:
    """Return two of the values that hold a percentile between them, beyond either with half of 1 -
    level.

    As `median_interval`, of which it is the general case. None for fewer values than it needs: 36
    for the 90th percentile at a level of 0.95, 368 for the 99th.

    Args:
        values: Finite, in any order.
        share: Share of the distribution that lies below the percentile, between 0 and 1.
        level: Above 0 and below 1.
        worth: How many independent values they are worth, where they depend on each other
            (`effective_sample_size` of whether each is above the percentile); None for all.

    >>> percentile_interval([float(value) for value in range(36)], 0.9, level=0.95)
    (28.0, 35.0)
    """
    n, tail = len(values), (1 - level) / 2
    independent = n if worth is None else min(n, int(worth))
    below, above = (_ranks_beyond(independent, one, tail) for one in (share, 1 - share))
    if not below or not above:
        return None
    ordered = sorted(values)
    # ranks among fewer values, in the same places among all of them
    low = max(1, below * n // independent)
    high = min(n, -(-(independent - above + 1) * n // independent))
    return ordered[low - 1], ordered[high - 1]


def _ranks_beyond(n: int, share: float, tail: float) -> int:
    """Up to which rank values of n lie above the percentile with a probability of at most `tail`.

    Args:
        n: Number of independent values.
        share: Share of the distribution that lies below the percentile.
        tail: Between 0 and 1.
    """
    return bisect_right(range(n), tail, key=lambda k: float(special.bdtr(k, n, share)))


def variation(values: Sequence[float]) -> float | None:
    """Return the coefficient of variation: the values' standard deviation over the size of their
    mean.

    None for fewer than two values, or where the mean is nothing but their rounding.

    >>> round(variation([1.0, 2.0, 3.0]), 9)
    0.5
    """
    if len(values) < 2:
        return None
    largest = max(map(abs, values))
    scaled = np.asarray(values, dtype=float) / largest if largest > 0 else np.zeros(1)
    mean = float(scaled.mean())
    return float(scaled.std(ddof=1)) / abs(mean) if abs(mean) > _NO_MEAN else None


def _scale(values: Series) -> NDArray[np.float64]:
    """Return the values as distances from the first, in units of the largest: no square can
    overflow.
    """
    series = np.asarray(values, dtype=float)
    if not len(series):
        return series
    size = float(np.abs(series).max())
    series = series / size if size > 0 else series
    series = series - series[0]
    spread = float(np.abs(series).max())
    return np.asarray(series / spread if spread > 0 else series)
