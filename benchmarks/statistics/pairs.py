"""Whether pairs tell two percent from nothing on this machine, and how many of them it takes.

    python benchmarks/statistics/pairs.py [--pairs 400] [--resamples 1000]

A matrix product is timed by `capsule pair` on the host, against itself and against one that does
two percent more of the same, on a machine left alone and beside a process that works in bursts. A
run's value is its fastest call of many, as `timeit` advises: a median follows whatever else the
machine does.
From each recording whole rounds are drawn with replacement, as many as the line says, and judged
at a margin of one percent; beside it stands what `capsule pair` says of the first rounds as they
came. Ends with 1 when, with 100 pairs, fewer than 80 % of the words are right or more than 5 %
wrong: the machine is then too noisy for a hundred pairs, and the last column says what would do.
Draws know nothing of rounds that depend on each other: `lag 1`, their correlation with the next
one, should be within 0.1 of 0. About three quarters of an hour with 400 pairs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from capsule import api, stats
from capsule.summary import run_values
from capsule.verdict import advising

MARGIN = 1.01
ALPHA = 0.05
_REGION = stats.Region(lower=-math.log(MARGIN), upper=math.log(MARGIN))
SIZES = (25, 50, 100)
RIGHT, WRONG = 0.80, 0.05
PRODUCTS = 50  # in a call of about 2 ms; two percent more is one more
CALLS = 300
METRIC = "kernel/default/command/time"
KERNEL = """
import json, os, time
import numpy as np
values = np.random.default_rng(int(os.environ["CAPSULE_SEED"])).standard_normal((96, 96))
def call():
    began = time.perf_counter()
    for _ in range({products}):
        values @ values
    return time.perf_counter() - began
call()
time = min(call() for _ in range({calls}))
with open(os.environ["CAPSULE_RESULTS"], "a") as results:
    results.write(json.dumps({{"metric": "time", "value": time}}) + "\\n")
"""
BURSTS = """
import random, time
while True:
    time.sleep(random.uniform(0, 0.4))
    end = time.monotonic() + random.uniform(0, 0.4)
    while time.monotonic() < end:
        pass
"""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What a pair gave.

    Attributes:
        noisy: Whether a process in bursts worked beside it.
        slower: Products of a call of B over those of A.
        differences: Logarithm of B's time over A's, one for each round that both sides finished.
    """

    noisy: bool
    slower: float
    differences: tuple[float, ...]

    @property
    def due(self) -> stats.Word:
        """The word that is right."""
        return "DIFFERENT" if self.slower > MARGIN else "REPRODUCED"

    @property
    def lag(self) -> float:
        """Correlation of each round with the next one."""
        rounds = np.asarray(self.differences)
        return float(np.corrcoef(rounds[:-1], rounds[1:])[0, 1])


@dataclass(frozen=True, kw_only=True)
class Line:
    """What so many rounds of a recording decide.

    Attributes:
        size: How many.
        right: Share of draws with the word that is due.
        wrong: Share of draws with the opposite word.
        word: Of the first rounds as they came.
        advice: What would decide these, empty where they are decided.
    """

    size: int
    right: float
    wrong: float
    word: stats.Word
    advice: str

    @property
    def missed(self) -> bool:
        """Whether it decides too seldom or too wrongly, of as many rounds as should do."""
        return self.size == SIZES[-1] and (self.right < RIGHT or self.wrong > WRONG)


def write(folder: Path, products: int) -> Path:
    """A manifest of the kernel, with so many products in a call."""
    folder.mkdir()
    (folder / "kernel.py").write_text(KERNEL.format(products=products, calls=CALLS))
    manifest = {
        "name": "kernel",
        "title": "A matrix product",
        "authors": [{"name": "The capsule authors"}],
        "license": "CC0-1.0",
        "seeds": [1, 2],
        "resources": {"cpus_per_rank": 1},
        "benchmarks": [
            {
                "id": "kernel",
                "command": ["python3", "kernel.py"],
                "inputs": ["kernel.py"],
                "metrics": {"time": {"unit": "s", "direction": "lower", "kind": "machine"}},
            }
        ],
    }
    path = folder / "manifest.json"
    path.write_text(json.dumps(manifest))
    return path


@contextmanager
def bursts(noisy: bool) -> Iterator[None]:
    """A process that works now and then, while the block lasts."""
    if not noisy:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", BURSTS]) as process:
        try:
            yield
        finally:
            process.kill()


def record(folder: Path, *, slower: float, noisy: bool, pairs: int) -> Recording:
    """Run a pair of the kernel and one that does more, and keep its rounds."""
    folder.mkdir()
    a, b = write(folder / "a", PRODUCTS), write(folder / "b", round(PRODUCTS * slower))
    options = api.PairOptions(
        runtime_a="host",
        runtime_b="host",
        pairs=pairs,
        work=folder / "pair",
        output_a=folder / "a.zip",
        output_b=folder / "b.zip",
    )
    with bursts(noisy):
        paired = api.pair(a, b, options)
    there, here = (
        {run.seed: run.value for run in run_values(side.record)[METRIC].runs if run.value}
        for side in (paired.a, paired.b)
    )
    differences = tuple(math.log(here[seed] / there[seed]) for seed in there if seed in here)
    return Recording(noisy=noisy, slower=slower, differences=differences)


def judge(differences: Sequence[float]) -> stats.Word:
    """The word of so many rounds."""
    return stats.decide(_interval(differences), _REGION).word


def advise(differences: Sequence[float]) -> str:
    """How many rounds would decide what these leave open."""
    runs = stats.Runs.of(dict(enumerate(differences)))
    return advising.rounds(runs, _interval(differences), _REGION).sentence


def _interval(differences: Sequence[float]) -> stats.Interval:
    interval = stats.paired_shift(stats.Runs.of(dict(enumerate(differences))), alpha=ALPHA)
    assert interval is not None
    return interval


def rates(recording: Recording, size: int, resamples: int, seed: int) -> tuple[float, float]:
    """The shares of right and of wrong words among so many draws of `size` rounds."""
    source = np.random.default_rng(seed)
    drawn = source.choice(np.asarray(recording.differences), size=(resamples, size))
    words = Counter(judge(tuple(map(float, rounds))) for rounds in drawn)
    right = words[recording.due]
    wrong = resamples - right - words["INCONCLUSIVE"]
    return right / resamples, wrong / resamples


def lines(recording: Recording, resamples: int, seed: int) -> Iterator[Line]:
    """What each number of rounds decides, of numbers that were recorded."""
    for size in SIZES:
        first = recording.differences[:size]
        if len(first) == size:
            word = judge(first)
            advice = advise(first) if word == "INCONCLUSIVE" else ""
            right, wrong = rates(recording, size, resamples, seed)
            yield Line(size=size, right=right, wrong=wrong, word=word, advice=advice)


def main() -> int:
    """Record, draw, print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    missed = False
    print(f"{os.cpu_count()} CPUs, {arguments.pairs} pairs recorded, margin {MARGIN:g}")
    print("beside   slower  sd of a round  lag 1  pairs  right  wrong  the first of them")
    with TemporaryDirectory(prefix="capsule-") as folder:
        for noisy in (False, True):
            for slower in (1.0, 1.02):
                beside = "bursts" if noisy else "nothing"
                place = Path(folder) / f"{beside}-{slower}"
                recording = record(place, slower=slower, noisy=noisy, pairs=arguments.pairs)
                spread = float(np.std(recording.differences, ddof=1))
                for line in lines(recording, arguments.resamples, arguments.seed):
                    missed |= line.missed
                    print(
                        f"{beside:7} {slower:7.2f} {spread:14.4f} {recording.lag:6.2f}"
                        f" {line.size:6} {line.right:6.3f} {line.wrong:6.3f}"
                        f"  {line.word} {line.advice}",
                        flush=True,
                    )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
