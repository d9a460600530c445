"""What a margin of "2 sd" is worth against the true spread: it is an estimate, as the shift is.

    python benchmarks/statistics/unconditional.py [--repetitions N] [--jobs N]

The promise of 5 % is about the frozen number. Here the truth lies at 2 standard deviations of the
population, whatever the original's runs made of them: how often each word is said all the same.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import populations
import product
from cells import Figures, percent

TRUTH = 2.0  # true sd, as the default margin is so many of those that the original shows
SIZES = ((3, 3), (5, 5), (10, 10), (30, 30), (3, 30), (10, 30), (30, 10))
SHAPES = tuple(populations.SHAPES)


@dataclass(frozen=True)
class Unconditional:
    """The default margin, frozen anew from each original's runs, with the truth at 2 true sd."""

    n_a: int
    n_b: int
    shape: str
    truth: float

    def measure(self, repetitions: int) -> Figures:
        """Percentage of each word."""
        random = populations.random(self)
        a = populations.runs(random, self.shape, (repetitions, self.n_a))
        b = populations.runs(random, self.shape, (repetitions, self.n_b), at=self.truth)
        decisions = (
            product.decision(x, y, product.freeze_one(product.metric(x), None))
            for x, y in zip(a, b, strict=True)
        )
        return percent(Counter(one.word for one in decisions if one), repetitions)


def cells() -> list[Unconditional]:
    """Everything that the table needs."""
    return [
        Unconditional(*n, shape, truth)
        for n in SIZES
        for shape in SHAPES
        for truth in (-TRUTH, TRUTH)
    ]


def table(results: Mapping[object, Figures]) -> list[tuple[str, ...]]:
    """Lines of runs, and for each shape both words' shares in percent, each of its worse side."""
    return [
        (f"{n_a} + {n_b}", *(_worse(results, n_a, n_b, shape) for shape in SHAPES))
        for n_a, n_b in SIZES
    ]


def head() -> tuple[str, ...]:
    """What stands above the lines."""
    return ("runs, REPRODUCED / DIFFERENT", *SHAPES)


def _worse(results: Mapping[object, Figures], n_a: int, n_b: int, shape: str) -> str:
    figures = [results[Unconditional(n_a, n_b, shape, truth)] for truth in (-TRUTH, TRUTH)]
    shares = (max(one[word] for one in figures) for word in ("REPRODUCED", "DIFFERENT"))
    return " / ".join(f"{share:.1f}" for share in shares)


def main() -> int:
    import verdicts

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=verdicts.REPETITIONS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    results = verdicts.measure(cells(), arguments.repetitions, arguments.jobs)
    for line in (head(), *table(results)):
        print("| " + " | ".join(line) + " |")
    print(f"\n{arguments.repetitions} repetitions a cell, seed {populations.SEED}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
