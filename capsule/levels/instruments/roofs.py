"""Measured roofline of a machine, and a check for rates above it.

The roof over arithmetic is the rate of products of square matrices. The roof over memory is the
rate of copies of arrays that fit in no cache (S. Williams, A. Waterman, D. Patterson: Roofline,
CACM 52, 2009). An operator whose data stay in a cache may exceed the second roof; nothing can
exceed the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain
from math import inf, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from .. import operators
from ..catalog import OPERATORS
from ..frameworks import Framework
from ..operators import ARITHMETIC, Operator
from . import capacity, timing
from .calls import Series
from .ranges import Sampler

if TYPE_CHECKING:
    from numpy.typing import NDArray

MARGIN = 10.0
"""Largest credible ratio of a rate to the fastest product: products reach at least half of the
units' peak, and other programs or a lower clock may slow them down meanwhile."""

BELIEVED = 5e10
"""FLOP/s that are credible of any machine without measurement: a present core reaches as many, and
reused results give a hundred times as many."""

ALWAYS = 1024
"""Size up to which products are tried, however long the smaller ones took."""

SIZES = (128, 256, 512, 1024, 2048, 4096, 8192)
_CALLS = 5
_MOST_CALLS, _ENOUGH_NS = 50, 20_000_000  # of short ones more, for some of them are disturbed
_LONGEST_NS = 15_000_000  # a product that takes more is followed by no larger one, of 8 times that

_WINDOW = ("q", "r", "s")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}
_SMALLEST_COPY, _LARGEST_COPY = 2**26, 2**29
_COPIES = 10


class ImpossibleRateError(Exception):
    """More operations a second than the machine does; the message says how many it does."""


def require_possible(
    framework: Framework, name: str, dtype: str, flops: float, seconds: float
) -> None:
    """Check that what was timed can have been computed meanwhile.

    Products are measured once a process, and only if the rate is above `BELIEVED`.

    Args:
        framework: Where it ran.
        name: What it was, for the message.
        dtype: A key of `ARITHMETIC`.
        flops: Fewest operations that any algorithm needs for it, see `fewest`.
        seconds: That it took.

    Raises:
        ImpossibleRateError: It is more than `MARGIN` times as fast as any product of matrices here.
    """
    rate = flops / max(seconds, 1e-9)
    if rate <= BELIEVED:
        return
    roof = _find_roof(framework, dtype)
    if rate > MARGIN * roof:
        raise ImpossibleRateError(
            f"{name} reached {rate:.3g} FLOP/s, more than {MARGIN:g} times this machine's fastest"
            f" {dtype} product in {framework.name}, {roof:.3g} FLOP/s: the calls reuse an earlier"
            " result or defer the work"
        )


def fewest(operator: Operator, sizes: Mapping[str, Any]) -> float:
    """Return operations that any algorithm needs: of a window one for each result.

    Transforms (Winograd, FFT) replace the products of a window by fewer, of which one is left. None
    of an operator whose products are of another type, which may be many times as fast.
    """
    if not operator.typed:
        return 0.0
    window = prod(sizes.get(name, 1) for name in _WINDOW)
    flops: float = operator.flops(sizes) / window
    return flops


def series(
    framework: Framework, dtype: str, threads: int, work: tuple[float, float], seconds: float
) -> Iterator[Series]:
    """Yield the roofs, and how near to them an operator is.

    Args:
        framework: Where it ran.
        dtype: A key of `ARITHMETIC`.
        threads: That copy where memory is the host's.
        work: FLOPs and bytes of a call.
        seconds: Seconds of a call.
    """
    products = product_rates(framework, dtype)  # type: ignore[arg-type]
    copies = copy_rates(framework, threads)  # type: ignore[arg-type]
    yield Series("machine_flops_per_second", products)
    yield Series("machine_bytes_per_second", copies)
    least = max(amount / max(rates) for amount, rates in zip(work, (products, copies)))
    yield Series("roofline_share", (least / max(seconds, 1e-9),))


@cache
def product_rates(framework: Framework, dtype: str) -> tuple[float, ...]:
    """FLOP/s of each product of the size whose fastest is the fastest, measured once a process."""
    return max(_products(framework, dtype), key=max, default=())


@cache
def copy_rates(framework: Framework, threads: int) -> tuple[float, ...]:
    """Return the bytes read and written per second by each copy, measured once a process."""
    if framework.memory is None:
        return _copy_in_host(threads)
    operator = operators.load("add")
    sizes = OPERATORS["add"].complete({"rows": 2**13, "columns": 2**13})
    shapes = [tensor.shape for tensor in operator.tensors(sizes).values()]
    durations = _time(framework, operator, sizes, "float32", shapes)
    return _rates(operator.bytes(sizes, "float32"), durations)


def _find_roof(framework: Framework, dtype: str) -> float:
    """Return the FLOP/s of the fastest product; infinity where a device has no memory for any."""
    # 16-bit products may be slower than others where the machine widens them
    words = {dtype, "float32" if ARITHMETIC[dtype].bytes == 2 else dtype}
    rates = (product_rates(framework, word) for word in words)  # type: ignore[arg-type]
    return max(chain.from_iterable(rates), default=inf)


def _products(framework: Framework, dtype: str) -> Iterator[tuple[float, ...]]:
    """FLOP/s of some products of each size, the smallest first."""
    operator = operators.load("gemm")
    for size in SIZES:
        sizes = OPERATORS["gemm"].complete(dict.fromkeys("mnk", size))
        if framework.memory is not None and 32 * size**2 > framework.memory.free():
            return
        with framework.arithmetic(dtype):
            durations = _time(framework, operator, sizes, dtype, [(size, size)] * 2)
        yield _rates(2 * size**3, durations)
        if size >= ALWAYS and min(durations) > _LONGEST_NS:
            return


def _time(
    framework: Framework,
    operator: Operator,
    sizes: Mapping[str, int],
    dtype: str,
    shapes: Iterable[tuple[int, ...]],
) -> list[int]:
    """Return nanoseconds of each call of an operator after one to warm up; nothing of it is kept.

    Each call gets other values, and its result is in the host's memory if that is where tensors
    live: what keeps results, or puts them off, is no roof.
    """
    import numpy

    arrays = [array.astype(ARITHMETIC[dtype].stored) for array in _draw(shapes)]
    tensors: tuple[Any, ...] = ()
    durations: list[int] = []
    fill = framework.fill
    # what cannot be filled is made anew, which may compile it
    most = _CALLS if fill is None else _MOST_CALLS
    while len(durations) <= _CALLS or (len(durations) <= most and sum(durations) < _ENOUGH_NS):
        arrays[0] = numpy.roll(arrays[0], 1)
        if tensors and fill is not None:
            fill(tensors[0], arrays[0])
        else:
            tensors = tuple(framework.from_numpy(array.copy(), dtype) for array in arrays)
            call, operands = framework.operators.operation(operator, sizes, tensors)
        whole = call if framework.memory is not None else _read(framework, call)
        durations.append(_time_once(framework, whole, operands))
    return durations[1:]


def _time_once(framework: Framework, call: Callable[..., Any], operands: tuple[Any, ...]) -> int:
    """Return nanoseconds of a call; of a device's own time where it has a clock."""
    clock = framework.device_clock
    if clock is None:
        return timing.measure(call, operands, 1, framework.synchronize)[0][0]
    (seconds,) = Sampler(clock, call, operands, alone=True, single=True).take(1)
    return round(seconds * 1e9)


def _read(framework: Framework, call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: framework.to_numpy(call(*operands))


def _draw(shapes: Iterable[tuple[int, ...]]) -> Iterator[NDArray[Any]]:
    """Yield numbers that cost what others cost: a device is faster with zeros."""
    import numpy

    generator = numpy.random.default_rng(1)
    for shape in shapes:
        yield generator.random(shape, dtype=numpy.float32) - numpy.float32(0.5)


def _rates(amount: float, durations: Iterable[int]) -> tuple[float, ...]:
    return tuple(amount * 1e9 / max(duration, 1) for duration in durations)


def _copy_in_host(threads: int) -> tuple[float, ...]:
    """Copy with some threads, each its part of two arrays four times larger than the caches."""
    import numpy

    free = capacity.host_free()
    largest = _LARGEST_COPY if free is None else min(_LARGEST_COPY, free // 8)
    size = min(max(2 * _largest_cache(), _SMALLEST_COPY), largest)
    source, target = numpy.empty(size, numpy.uint8), numpy.empty(size, numpy.uint8)
    parts = tuple(numpy.array_split(array, threads) for array in (target, source))
    with ThreadPoolExecutor(threads) as pool:
        # whose memory a page is, decides who touches it first
        for own in parts:
            list(pool.map(numpy.ndarray.fill, own, [1] * threads))

        def copy() -> None:
            list(pool.map(numpy.copyto, *parts))

        return _rates(2 * size, timing.measure(copy, (), 1 + _COPIES)[0][1:])


def _largest_cache() -> int:
    """Return the size of this machine's largest cache in bytes; 0 if unknown."""
    sizes = [0]
    for path in sorted(_CACHES.glob("index*/size")):
        try:
            word = path.read_text(encoding="ascii").strip()
            sizes.append(int(word[:-1]) * _UNITS[word[-1:]])
        except (OSError, ValueError, KeyError):
            continue
    return max(sizes)
