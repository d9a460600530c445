"""What users wait for, here and in another checkout, in turn: the ratio of each pair.

    python benchmarks/harness/beside.py OTHER [--rounds N] [--only NAME]

OTHER is a checkout of another commit. Start-up, `check`, `diff`, and the run and verification of
three operators are timed as whole processes with this interpreter, one of each side a round, who
goes first changing from round to round. Each side reads capsules that it sealed itself, for layouts
may differ. Printed are the median of the paired ratios here / there and its 95 % interval by order
statistics. Ends with 1 when the upper end of one is above the limit.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from capsule.stats import median_interval

LIMIT = 1.05
HERE = Path(__file__).parents[2]
# quick commands are timed so many times a round
REPEATS = {"start-up": 10, "check": 3, "diff": 3}


class Checkout:
    """One side, with a home and a folder of its own."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root, self._folder = root, folder
        folder.mkdir()

    def run(self, *words: str) -> float:
        """Seconds of one command."""
        own = {"PYTHONPATH": str(self._root), "HOME": str(self._folder)}
        # neither side compiles itself each time while the other need not
        inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "capsule", *words],
            cwd=self._folder,
            env=inherited | own,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        return time.perf_counter() - began

    def prepare(self) -> None:
        """Seal what is read later."""
        self.operators("a.zip")
        self.run("verify", "a.zip", "--output", "b.zip")

    def operators(self, output: str) -> float:
        """Seconds of running three operators in two frameworks."""
        (self._folder / output).unlink(missing_ok=True)
        manifest = HERE / "manifests" / "frameworks.json"
        return self.run("run", str(manifest), "--output", output)

    def verify(self) -> float:
        """Seconds of verifying that."""
        (self._folder / "again.zip").unlink(missing_ok=True)
        return self.run("verify", "a.zip", "--output", "again.zip")


COMMANDS: dict[str, Callable[[Checkout], float]] = {
    "start-up": lambda side: side.run("--help"),
    "check": lambda side: side.run("check", "a.zip"),
    "diff": lambda side: side.run("diff", "a.zip", "b.zip"),
    "run": lambda side: side.operators("new.zip"),
    "verify": Checkout.verify,
}


def ratios(here: Checkout, there: Checkout, name: str, rounds: int) -> list[float]:
    """Here over there, once a round."""
    measure = COMMANDS[name]
    pairs = []
    for number in range(rounds * REPEATS.get(name, 1)):
        sides = [here, there] if number % 2 else [there, here]
        seconds = {side: measure(side) for side in sides}
        pairs.append(seconds[here] / seconds[there])
    return pairs


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", choices=COMMANDS)
    arguments = parser.parse_args()
    missed = False
    with TemporaryDirectory(prefix="capsule-") as folder:
        here = Checkout(HERE, Path(folder) / "here")
        there = Checkout(arguments.other.resolve(), Path(folder) / "there")
        here.prepare()
        there.prepare()
        for name in [arguments.only] if arguments.only else COMMANDS:
            pairs = ratios(here, there, name, arguments.rounds)
            lower, upper = median_interval(pairs, level=0.95) or (0.0, float("inf"))
            missed = missed or upper > LIMIT
            print(
                f"{name:18} {statistics.median(pairs):.3f} ({lower:.3f} to {upper:.3f})"
                f" in {len(pairs)} pairs, limit {LIMIT:g}",
                flush=True,
            )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
