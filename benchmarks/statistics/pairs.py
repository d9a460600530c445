"""Whether pairs tell two percent from nothing on this machine, and how many of them it takes.

    python benchmarks/statistics/pairs.py [--pairs 400] [--resamples 1000]

A matrix product is timed by `capsule pair` on the host, against itself and against one that does
two percent more of the same, on a machine left alone and beside a process that works in bursts.
From each recording numbers of pairs are drawn with replacement and judged at a margin of one
percent. Ends with 1 when, with 100 pairs, fewer than 80 % of the words are right or more than 5 %
wrong: the machine is then too noisy for a hundred pairs, and the last column says what would do.
About twenty minutes with 400 pairs.
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
SIZES = (25, 50, 100)
RIGHT, WRONG = 0.80, 0.05
PRODUCTS = 250  # in a call of about 5 ms
CALLS = 15
METRIC = "kernel/default/command/time"
KERNEL = """
import json, os, statistics, time
import numpy as np
values = np.random.default_rng(int(os.environ["CAPSULE_SEED"])).standard_normal((96, 96))
def call():
    began = time.perf_counter()
    for _ in range({products}):
        values @ values
    return time.perf_counter() - began
call()
time = statistics.median(call() for _ in range({calls}))
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
        differences: Logarithm of B's time over A's, one for each round.
    """

    noisy: bool
    slower: float
    differences: tuple[float, ...]

    @property
    def due(self) -> stats.Word:
        """The word that is right."""
        return "DIFFERENT" if self.slower > MARGIN else "REPRODUCED"


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
    here, there = (run_values(side.record)[METRIC].values for side in (paired.b, paired.a))
    differences = tuple(math.log(b / a) for b, a in zip(here, there, strict=True))
    return Recording(noisy=noisy, slower=slower, differences=differences)


def judge(differences: Sequence[float]) -> tuple[stats.Word, str]:
    """The word of so many rounds, and what would decide them where it is open."""
    runs = stats.Runs.of(dict(enumerate(differences)))
    interval = stats.paired_shift(runs, alpha=ALPHA)
    assert interval is not None
    region = stats.Region(lower=-math.log(MARGIN), upper=math.log(MARGIN))
    word = stats.decide(interval, region).word
    advice = (
        "" if word != "INCONCLUSIVE" else advising.pairs(runs, interval, region, more=True).sentence
    )
    return word, advice


def rates(recording: Recording, size: int, resamples: int, seed: int) -> tuple[float, float]:
    """The shares of right and of wrong words among so many draws of `size` rounds."""
    source = np.random.default_rng(seed)
    drawn = source.choice(np.asarray(recording.differences), size=(resamples, size))
    words = Counter(judge(tuple(map(float, rounds)))[0] for rounds in drawn)
    right = words[recording.due]
    wrong = resamples - right - words["INCONCLUSIVE"]
    return right / resamples, wrong / resamples


def main() -> int:
    """Record, draw, print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    missed = False
    print(f"{os.cpu_count()} CPUs, {arguments.pairs} pairs recorded, margin {MARGIN:g}")
    print("beside      slower  sd of a round  pairs  right  wrong  all of them")
    with TemporaryDirectory(prefix="capsule-") as folder:
        os.chdir(folder)
        for noisy in (False, True):
            for slower in (1.0, 1.02):
                name = Path(folder) / f"{'bursts' if noisy else 'nothing'}-{slower}"
                recording = record(name, slower=slower, noisy=noisy, pairs=arguments.pairs)
                spread = float(np.std(recording.differences, ddof=1))
                whole, advice = judge(recording.differences)
                for size in SIZES:
                    right, wrong = rates(recording, size, arguments.resamples, arguments.seed)
                    missed |= size == SIZES[-1] and (right < RIGHT or wrong > WRONG)
                    print(
                        f"{'bursts' if noisy else 'nothing':10} {slower:7.2f}  {spread:13.4f}"
                        f"  {size:5}  {right:5.3f}  {wrong:5.3f}  {whole} {advice}",
                        flush=True,
                    )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
