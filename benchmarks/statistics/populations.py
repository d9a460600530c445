"""Populations that runs are drawn from: shapes with mean 40 and a standard deviation of 1.

With that mean the common rule "within 5 %" allows exactly 2 standard deviations, so that it and a
margin of 2 sd answer the same question.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

import numpy as np

SEED = 20260301
SECOND_SEED = 20260302
MEAN = 40.0
_LOG_SD = 0.6
_SECOND_MODE = 0.2  # its share

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


_seed = ContextVar("seed", default=SEED)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw everything from that seed meanwhile."""
    token = _seed.set(seed)
    try:
        yield
    finally:
        _seed.reset(token)


def random(*names: object) -> np.random.Generator:
    """A generator for one cell: the same whatever else is drawn, in whatever order."""
    return np.random.default_rng([_seed.get(), zlib.crc32(repr(names).encode())])


def runs(
    generator: np.random.Generator, shape: str, size: tuple[int, ...], *, at: float = 0.0
) -> np.ndarray:
    """Run values of that shape around 40, moved by `at` standard deviations."""
    return MEAN + at + _ALL[shape](generator, size)


def _normal(generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    return generator.standard_normal(size)


def _lognormal(generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    variance = _LOG_SD**2
    mean = np.exp(variance / 2)
    sd = mean * np.sqrt(np.expm1(variance))
    return (generator.lognormal(0, _LOG_SD, size) - mean) / sd


def _t3(generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    return generator.standard_t(3, size) / np.sqrt(3)


def _bimodal(modes_apart: float) -> Draw:
    """Modes so many standard deviations of one mode apart."""
    mean = modes_apart * _SECOND_MODE
    sd = np.sqrt(1 + modes_apart**2 * _SECOND_MODE * (1 - _SECOND_MODE))

    def draw(generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
        second = generator.random(size) < _SECOND_MODE
        return (generator.standard_normal(size) + modes_apart * second - mean) / sd

    return draw


def counts(generator: np.random.Generator, shape: str, size: tuple[int, ...]) -> np.ndarray:
    """Whole numbers of that shape around 40: metrics that are counted, such as epochs."""
    return MEAN + _COUNTS[shape](generator, size)


def _geometric(generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    return generator.geometric(0.5, size).astype(float)


def _half_zeros(generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    return generator.integers(0, 2, size) * generator.integers(1, 5, size).astype(float)


def _skewed_steps(generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    return np.rint(2 * generator.lognormal(0, _LOG_SD, size))


def _rounded(generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    return np.rint(1.5 * generator.standard_normal(size))


COUNTS: tuple[str, ...] = ("rounded normal", "skewed steps", "geometric", "half zeros")
_COUNTS: Mapping[str, Draw] = dict(
    zip(COUNTS, (_rounded, _skewed_steps, _geometric, _half_zeros), strict=True)
)
SYMMETRIC = ("normal", "t3")
# what every promise is about
SHAPES: Mapping[str, Draw] = {
    "normal": _normal,
    "lognormal": _lognormal,
    "t3": _t3,
    "bimodal": _bimodal(4),
}
# outside of the promise, to show where it ends
FAR = "far bimodal"
_ALL = {**SHAPES, FAR: _bimodal(6)}


# times to train of published runs: benchmarks/statistics/mlperf_times.json says from where
_TIMES: Mapping[str, Sequence[float]] = json.loads(
    Path(__file__).with_name("mlperf_times.json").read_text()
)["times"]
REAL = tuple(_TIMES)


def draw(generator: np.random.Generator, name: str, size: tuple[int, ...]) -> np.ndarray:
    """Run values of a shape, or logarithms of published times, with mean 40.

    A shape has a standard deviation of 1, published times have their own.
    """
    if name in _ALL:
        return runs(generator, name, size)
    return generator.choice(_logarithms(name), size)


def sd(name: str) -> float:
    """The standard deviation of the same."""
    return 1.0 if name in _ALL else float(_logarithms(name).std())


@cache
def _logarithms(name: str) -> np.ndarray:
    values = np.log(_TIMES[name])
    return MEAN + values - values.mean()
