"""Error rates and power of every verdict, by the product's own decisions, against their limits.

    python benchmarks/statistics/verdicts.py [--repetitions N] [--jobs N]
    python benchmarks/statistics/verdicts.py --full
    python benchmarks/statistics/verdicts.py --designs

Ten minutes on two cores, with --full half an hour, with --designs hours. Prints for each row the
worst figure of all its cells, with its interval and beside its limit, and that cell's from a second
seed. The quick table leaves out whatever counts more relabelings than 6 + 6 runs have; --designs
prints the rows on whole designs instead. Same figures for any number of jobs. Ends with 1 when the
interval of a row lies wholly beyond its limit.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import acceptance
import populations
from acceptance import Row, design_rows, interval, rows
from cells import Capsules, Counted, Curves, Family, Figures
from exactness import Check
from guards import Distribution, FailureMargin, Failures, RatioFromPaper

from capsule.stats.permutation import can_count

REPETITIONS = 2000
DESIGN_REPETITIONS = 200
QUICK_REPETITIONS = 800
_QUICK_RELABELINGS = math.comb(12, 6)


def in_quick(cell: Any) -> bool:
    """Whether the quick table has it: nothing that counts more relabelings than 6 + 6 runs have."""
    n_a, n_b = getattr(cell, "n_a", 0), getattr(cell, "n_b", 0)
    return not (can_count(n_a, n_b) and math.comb(n_a + n_b, n_a) > _QUICK_RELABELINGS)


def shorten(table: Iterable[Row]) -> list[Row]:
    """The rows of the quick table."""
    short = (replace(row, cells=list(filter(in_quick, row.cells))) for row in table)
    return [row for row in short if row.cells]


def have_fewer_cases(row: Row, repetitions: int) -> Row:
    """The same row, its checks with fewer cases where it is asked for fewer than usual of all."""

    def shorter(cell: Any) -> Any:
        if not isinstance(cell, Check) or repetitions >= QUICK_REPETITIONS:
            return cell
        return replace(cell, cases=max(1, cell.cases * repetitions // QUICK_REPETITIONS))

    return replace(row, cells=[*map(shorter, row.cells)])


def measure(
    cells: Iterable[Any], repetitions: int, jobs: int, *, seed: int = populations.SEED
) -> dict[Any, Figures]:
    """The figures of every distinct cell, the same for any number of jobs."""
    distinct = list(dict.fromkeys(cells))
    # the long ones first, so that no process is left alone with one at the end
    slow = (
        *(Check, Distribution, Curves, Capsules, Failures, FailureMargin),
        *(RatioFromPaper, Family, Counted),
    )
    distinct.sort(key=lambda cell: slow.index(type(cell)) if type(cell) in slow else len(slow))
    work = partial(_measure_cell, repetitions=repetitions, seed=seed)
    if jobs == 1:
        return dict(zip(distinct, map(work, distinct), strict=True))
    with ProcessPoolExecutor(jobs) as pool:
        return dict(zip(distinct, pool.map(work, distinct), strict=True))


def in_second(repetitions: int) -> int:
    """How often the worst cells are repeated from the second seed, to check the first."""
    return max(1, repetitions // 4)


def keeps(
    row: Row, figures: Mapping[Any, Figures], second: Mapping[Any, Figures], repetitions: int
) -> bool:
    """Whether a row's worst figure keeps its limit, and that of its cell from the second seed."""
    figure, cell = row.worst(figures)
    if not row.keeps(figure, repetitions):
        return False
    return (
        row.of_all or cell not in second or row.keeps(row.of(cell, second), in_second(repetitions))
    )


def _measure_cell(cell: Any, *, repetitions: int, seed: int) -> Figures:
    with populations.seeded(seed):
        return cell.measure(repetitions)


def show(figure: float, unit: str) -> str:
    """A figure as the tables print it."""
    if unit == "":
        return f"{figure:.0e}" if 0 < figure < 1 else f"{figure:g}"
    return f"{figure:.2g}{unit}" if unit == " ms" else f"{figure:.1f}{unit}"


def standard_error(percentage: float, repetitions: int) -> float:
    """Of a share counted in so many repetitions, in percentage points."""
    return math.sqrt(percentage * (100 - percentage) / repetitions)


def show_interval(figure: float, unit: str, repetitions: int) -> str:
    """A figure as the tables print it, a share with its interval."""
    if unit != " %":
        return show(figure, unit)
    low, high = interval(figure, repetitions)
    return f"{show(figure, unit)} [{low:.1f}, {high:.1f}]"


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, help="in each cell")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--full", action="store_true", help="every cell: half an hour")
    parser.add_argument("--designs", action="store_true", help="the rows on whole designs: hours")
    arguments = parser.parse_args()
    began = time.perf_counter()
    usual = REPETITIONS if arguments.full else QUICK_REPETITIONS
    whole = rows() if arguments.full else shorten(rows())
    if arguments.designs:
        usual, whole = DESIGN_REPETITIONS, design_rows()
    number = arguments.repetitions or usual
    table = [have_fewer_cases(row, number) for row in whole]
    figures = measure((cell for row in table for cell in row.cells), number, arguments.jobs)
    again = acceptance.worst_cells(table, figures)
    second = measure(again, in_second(number), arguments.jobs, seed=populations.SECOND_SEED)
    missed = _print_rows(table, figures, second, number)
    seconds = time.perf_counter() - began
    error = standard_error(5, number)
    print(
        f"\n{number} simulations a cell (standard error {error:.2f} percentage points"
        f" at a rate of 5 %), seed {populations.SEED}, and {in_second(number)}, seed"
        f" {populations.SECOND_SEED}; {len(figures)} cells, {seconds:.0f} s"
    )
    if not (arguments.full or arguments.designs):
        print("left out: what counts more relabelings than 6 + 6 runs have (--full)")
    print(f"rows that miss their limit: {missed}")
    return int(missed > 0)


def _print_rows(
    table: Sequence[Row],
    figures: Mapping[Any, Figures],
    second: Mapping[Any, Figures],
    repetitions: int,
) -> int:
    missed = 0
    width = max(len(row.name) for row in table)
    for row in table:
        figure, cell = row.worst(figures)
        values = [show_interval(figure, row.unit, repetitions)]
        if cell in second and not row.of_all:
            again = row.of(cell, second)
            values.append(show_interval(again, row.unit, in_second(repetitions)))
        kept = keeps(row, figures, second, repetitions)
        word = "" if row.limit is None else "ok" if kept else "MISSED"
        missed += word == "MISSED"
        shown = "  ".join(f"{value:>19}" for value in values)
        print(f"{row.name:{width}}  {shown:40}  {row.bound:14} {word:6}  {cell}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
