"""What a region of `capsule_regions` costs: a loop of empty regions against an empty loop.

    python benchmarks/harness/regions.py [--rounds N]

The ways take turns in short blocks of one process, so that a busy machine slows all of them; a
round's difference to its empty loop, per call, is one number, and the median of a way's is
printed with its quartiles, in microseconds. `events` are two CUDA events on an idle stream, where
torch has a device. What is written at the end is not counted, for it is written after the last
region. Ends with 1 when `with region("name"):` or the decorator takes 2 us or more.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable
from importlib import util
from pathlib import Path
from time import perf_counter_ns

LIBRARY = Path(__file__).parents[2] / "capsule" / "levels" / "library"
LIMIT_US = 2.0
_CALLS = 2_000
_FEW_CALLS = 200  # those of events are given back by the device

sys.path.insert(0, str(LIBRARY))
os.environ["CAPSULE_RESULTS"] = os.devnull
import capsule_regions  # noqa: E402

# all blocks together have more calls than a run's file has room for
capsule_regions.MOST_CALLS = sys.maxsize


def empty(calls: int) -> None:
    for _ in range(calls):
        pass


def context(calls: int) -> None:
    for _ in range(calls):
        with capsule_regions.region("context"):
            pass


def nested(calls: int) -> None:
    for _ in range(calls // 2):
        with capsule_regions.region("outer"), capsule_regions.region("inner"):
            pass


@capsule_regions.region("decorated")
def nothing() -> None:
    pass


def decorated(calls: int) -> None:
    for _ in range(calls):
        nothing()


def events(calls: int) -> None:
    for _ in range(calls):
        with capsule_regions.region("events", cuda=True):
            pass


def time_block(way: Callable[[int], None], calls: int) -> float:
    """Microseconds per call of one block."""
    start = perf_counter_ns()
    way(calls)
    return (perf_counter_ns() - start) / calls / 1000


def ways() -> dict[str, tuple[Callable[[int], None], int]]:
    """Each with the calls of a block."""
    known = {"context": (context, _CALLS), "nested": (nested, _CALLS)}
    known["decorated"] = (decorated, _CALLS)
    if util.find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            known["events"] = (events, _FEW_CALLS)
    return known


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    costs: dict[str, list[float]] = {name: [] for name in ways()}
    for _ in range(rounds):
        for name, (way, calls) in ways().items():
            costs[name].append(time_block(way, calls) - time_block(empty, calls))
        capsule_regions.flush()
    print("us per region   median  quartiles")
    medians = {}
    for name, values in costs.items():
        low, medians[name], high = statistics.quantiles(values, n=4)
        print(f"{name:<14} {medians[name]:7.3f}  {low:.3f} to {high:.3f}")
    slow = [name for name in ("context", "decorated") if medians[name] >= LIMIT_US]
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
