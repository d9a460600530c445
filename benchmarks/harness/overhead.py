"""What the harness adds to a native call: `timing.measure` of levels against timeit's bare loop.

    python benchmarks/harness/overhead.py [--rounds N] [--deep500 SITE_PACKAGES]

Both run the same native function on the same operands, in one process with one thread, in short
blocks that take turns. `added` is the wall time of a block through our harness less that of the
bare loop, per call; `bias` is the mean of the durations that the harness records less the bare
loop's time per call; `corrected` is the bias less `empty`, the time of an empty call that every
process records beside its samples (`empty_call_ns`). Each is the median over rounds of the
difference within a round, with its nonparametric 95 % interval (order statistics).

Every duration holds one reading of the clock, for which a call would have to share its duration
with others if it were to hold less, and how long that takes is the machine's affair: added and bias
were 0.05 to 0.08 us where one thread had a core, 0.1 to 0.2 us where two shared it or the clock was
slow, there more than 1 % of a call of 10 us. An empty call also holds the call itself, which a bare
loop makes too, so `corrected` comes out some 20 ns too low rather than too high. Capsules keep
durations as they were read.

Ends with 1 when one of these is missed by more than its interval: 1 us per call added; corrected
within 1 us, and from calls of 10 us on within 1 % (the stricter one up to 100 us; beyond, nobody
resolves 1 us). `spin` is a call that returns when a clock says that 10 us are over: the last
limit's foot, free of noise.

--deep500 names a folder where `pip install --target` has put `deep500==0.2.0 six jinja2 networkx`:
the times that it records (`test_nativeop_forward` and `WallclockTime` as they come, averages of 10
calls) are then measured in the same rounds.
"""

from __future__ import annotations

import argparse
import collections
import collections.abc
import contextlib
import gc
import io
import itertools
import os
import platform
import resource
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from timeit import Timer
from typing import Any

LIMIT_US = 1.0
LIMIT_PERCENT = 1.0
FROM_US = 10.0
_BLOCK_US = 1_000
_ROW_SECONDS = 6
_TRIES = 20
_FEWEST = 6  # with fewer values no two of them enclose the median with 95 %
_SPIN_NS = 10_000
_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Row:
    """One native call, as our harness gets it and as one would write it by hand."""

    name: str
    call: Callable[..., Any]
    operands: tuple[Any, ...]
    statement: str
    names: Mapping[str, Any]

    def bare(self) -> Timer:
        """The statement in timeit's loop, with local names for all that it uses."""
        setup = "; ".join(f"{name} = names[{name!r}]" for name in self.names)
        return Timer(self.statement, setup or "pass", globals={"names": dict(self.names)})


def rows() -> Iterator[Row]:
    """Calls from nothing to milliseconds; torch and numpy by the catalogue's operators."""
    import torch
    from torch.nn import functional

    x = torch.zeros(1)
    yield Row("identity", _identity, (x,), "f(x)", {"f": _identity, "x": x})
    yield Row("spin 10 us", _spin, (x,), "f(x)", {"f": _spin, "x": x})
    for size in (8, 64, 128, 512):
        sizes = {"m": size, "n": size, "k": size}
        yield _row("torch", "gemm", sizes, f"matmul {size}^3", "f(a, b)", torch.mm)
    for size in (1_000, 50_000):
        yield _row("torch", "relu", {"n": size}, f"relu {size}", "f(a)", torch.relu)
    conv = {"n": 1, "c": 16, "h": 32, "w": 32, "k": 16, "r": 3, "s": 3, "padding": 1, "bias": 1}
    statement = "f(a, b, c, 1, 1, 1, 1)"
    yield _row("torch", "conv2d", conv, "conv 3x3 16 of 32^2", statement, functional.conv2d)
    import numpy

    for size in (8, 64, 512):
        sizes = {"m": size, "n": size, "k": size}
        yield _row("numpy", "gemm", sizes, f"matmul {size}^3", "f(a, b)", numpy.matmul)


def _row(
    framework: str, operator: str, sizes: dict[str, int], name: str, statement: str, native: Any
) -> Row:
    from capsule.levels import catalog, frameworks, operators

    loaded = frameworks.load(framework, "cpu", 1, "default")
    whole = catalog.OPERATORS[operator].complete(sizes)
    formula = operators.load(operator)
    tensors = tuple(
        loaded.from_numpy(array, "float32") for array in formula.inputs(whole, "float32", 1)
    )
    call, operands = loaded.operators.operation(formula, whole, tensors)
    if call is not native:
        raise ValueError(f"{framework} {operator} runs {call}, the bare loop {native}")
    return Row(
        f"{framework} {name}",
        call,
        operands,
        statement,
        {"f": native, **dict(zip("abc", tensors, strict=False))},
    )


def _identity(x: Any) -> Any:
    return x


def _spin(x: Any) -> Any:
    end = perf_counter_ns() + _SPIN_NS
    while perf_counter_ns() < end:
        pass
    return x


@dataclass(frozen=True)
class Block:
    """What one block of calls took, in nanoseconds per call.

    Attributes:
        wall: By the clock on the wall.
        recorded: Mean of the durations that were recorded.
        empty: What is recorded of an empty call just then; 0 where nothing is known of it.
    """

    wall: float
    recorded: float
    empty: float


def bare(row: Row) -> Callable[[int], Block]:
    """The hand-written loop; it records nothing but its wall time."""
    timer = row.bare()

    def block(calls: int) -> Block:
        timer.timeit(1)
        nanoseconds = timer.timeit(calls) / calls * 1e9
        return Block(nanoseconds, nanoseconds, 0.0)

    return block


def ours(row: Row) -> Callable[[int], Block]:
    """The way that every trial of Level 0 goes, with one call to warm up.

    What is done once for all calls is taken off: the wall time of one empty call through the same.
    """
    from capsule.levels.instruments import timing

    def block(calls: int) -> Block:
        readings = [perf_counter_ns()]
        for call, count in ((_identity, 1), (row.call, 1 + calls)):
            operands = row.operands if call is row.call else row.operands[:1]
            recorded, _ = timing.measure(call, operands, count)
            readings.append(perf_counter_ns())
        once, wall = readings[1] - readings[0], readings[2] - readings[1]
        return Block(
            (wall - once - recorded[0]) / calls, sum(recorded[1:]) / calls, timing.empty_call_ns()
        )

    return block


def load_deep500(folder: str) -> Any:
    """Deep500's PyTorch backend, where it can be had.

    Its 0.2.0 needs two repairs on a Python of today: `collections.Iterator` moved in Python 3.10,
    and the MPI part, which needs mpi4py when its class is made, gets an empty base.
    """
    sys.path.append(folder)
    collections.Iterator = collections.abc.Iterator  # type: ignore[attr-defined]
    communication = types.ModuleType("deep500.lv3.communication")
    communication.CommunicationNetwork = object  # type: ignore[attr-defined]
    sys.modules[communication.__name__] = communication
    with contextlib.redirect_stdout(io.StringIO()):
        import deep500
        import deep500.frameworks.pytorch
    return deep500


def theirs(deep500: Any, row: Row) -> Callable[[int], Block]:
    """Deep500's native-operator path; what is no tensor is bound beforehand."""
    import torch

    count = sum(isinstance(operand, torch.Tensor) for operand in row.operands)
    tensors, rest = list(row.operands[:count]), row.operands[count:]
    call = row.call
    operator = (lambda *operands: call(*operands, *rest)) if rest else call

    def block(calls: int) -> Block:
        call(*row.operands)
        clock = deep500.WallclockTime(reruns=calls)
        with contextlib.redirect_stdout(io.StringIO()):
            start = perf_counter_ns()
            # its return value leaves the metric's samples out of reach when there are two metrics
            (recorded,) = deep500.frameworks.pytorch.test_nativeop_forward(
                operator, tensors, [None], [clock]
            )
            wall = perf_counter_ns() - start
        return Block(wall / calls, 1e9 * sum(recorded) / len(recorded), 0.0)

    return block


@dataclass(frozen=True)
class Estimate:
    """A median over rounds and its 95 % interval."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        from scipy.stats import binom

        ordered = sorted(values)
        last = len(ordered) - 1
        rank = max(int(binom.ppf(0.025, len(ordered), 0.5)) - 1, 0)
        middle = (ordered[last // 2] + ordered[-(last // 2) - 1]) / 2
        return cls(middle, ordered[rank], ordered[last - rank])

    def show(self, decimals: int) -> str:
        low, high = (f"{end:.{decimals}f}" for end in (self.low, self.high))
        return f"{self.middle:.{decimals}f} [{low}, {high}]"


@dataclass(frozen=True)
class Compared:
    """One way of measuring against the bare loop: us per call, and percent."""

    us: Estimate
    percent: Estimate

    @classmethod
    def of(cls, native: Sequence[float], other: Sequence[float]) -> Compared:
        pairs = list(zip(native, other, strict=True))
        return cls(
            Estimate.of([(b - a) / 1e3 for a, b in pairs]),
            Estimate.of([100 * (b - a) / a for a, b in pairs]),
        )

    def show(self) -> str:
        return f"{self.us.show(3)} us, {self.percent.show(2)} %"


def take_turns(ways: Sequence[Callable[[int], Block]], rounds: int) -> list[list[Block]]:
    """Blocks of every way, by rounds; each round starts with another way.

    A block in which the kernel took the processor away says nothing about the harness and is done
    again; a round with a block that never had the processor for itself is left out.
    """
    ways[0](3)
    fitting = _BLOCK_US * 1e3 / ways[0](3).wall
    # whole groups of Deep500's ten
    calls = 10 * round(fitting / 10) if fitting > 10 else max(1, round(fitting))
    kept: list[list[Block]] = [[] for _ in ways]
    end = perf_counter_ns() + _ROW_SECONDS * 10**9
    for index in itertools.count():
        if len(kept[0]) == rounds or perf_counter_ns() > end:
            break
        order = [(index + turn) % len(ways) for turn in range(len(ways))]
        blocks = {which: _undisturbed(ways[which], calls) for which in order}
        if index and None not in blocks.values():  # the first round warms every way
            for which, of_way in enumerate(kept):
                of_way.append(blocks[which])
    return kept


def _undisturbed(block: Callable[[int], Block], calls: int) -> Block | None:
    for _ in range(_TRIES):
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
        result = block(calls)
        if resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw == before:
            return result
    return None


def judge_added(added: Compared) -> list[str]:
    """The limit of what is added, in words where it is missed by more than the interval."""
    if added.us.low <= LIMIT_US:
        return []
    return [f"added {added.us.show(3)} us where {LIMIT_US:g} us is the limit"]


def judge_corrected(native_us: float, corrected: Compared) -> list[str]:
    """`judge_added` for what is recorded, on either side."""
    unit, value, limit = (
        ("%", corrected.percent, LIMIT_PERCENT)
        if native_us >= FROM_US
        else ("us", corrected.us, LIMIT_US)
    )
    if value.low <= limit and value.high >= -limit:
        return []
    return [f"corrected bias {value.show(3)} {unit} where {limit:g} {unit} is the limit"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=401)
    parser.add_argument("--deep500", metavar="SITE_PACKAGES")
    arguments = parser.parse_args()
    # before any library starts its threads
    os.environ.update(dict.fromkeys(_VARIABLES, "1"))
    import numpy
    import torch

    torch.set_num_threads(1)
    deep500 = load_deep500(arguments.deep500) if arguments.deep500 else None
    every = list(rows())
    gc.disable()
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, numpy {numpy.__version__},"
        f" 1 thread, up to {arguments.rounds} rounds, load {os.getloadavg()[0]:.1f};"
        " median [95 % interval]"
    )
    missed: list[str] = []
    unmeasured: list[str] = []
    print("| call | rounds | bare loop | added, us and % | bias | empty | corrected |", end="")
    print(" bias of Deep500 |" if deep500 else "")
    print("|---|--:|--:|---|---|--:|---|" + ("---|" if deep500 else ""))
    for row in every:
        ways = [bare(row), ours(row)]
        compared = deep500 is not None and not row.name.startswith("numpy")
        if compared:
            ways.append(theirs(deep500, row))
        blocks = take_turns(ways, arguments.rounds)
        if len(blocks[0]) < _FEWEST:
            unmeasured.append(f"{row.name}: not measured, the machine is too busy")
            continue
        native = [block.wall for block in blocks[0]]
        native_us = Estimate.of(native).middle / 1e3
        added = Compared.of(native, [block.wall for block in blocks[1]])
        bias = Compared.of(native, [block.recorded for block in blocks[1]])
        corrected = Compared.of(native, [block.recorded - block.empty for block in blocks[1]])
        empty = Estimate.of([block.empty / 1e3 for block in blocks[1]])
        cells = [row.name, f"{len(native)}", f"{native_us:.2f} us", added.show(), bias.show()]
        cells += [f"{empty.middle:.3f} us", corrected.show()]
        if deep500:
            recorded = [block.recorded for block in blocks[-1]]
            cells.append(Compared.of(native, recorded).show() if compared else "")
        print(f"| {' | '.join(cells)} |", flush=True)
        misses = [*judge_added(added), *judge_corrected(native_us, corrected)]
        missed += [f"{row.name}: {words}" for words in misses]
    print("\n".join([*unmeasured, *missed]) or "no limit is missed")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
