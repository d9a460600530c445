"""Training steps of two trees of capsule that take turns: whether a change made them slower.

    python benchmarks/harness/two_trees.py OLD NEW [--blocks N] [--steps N] [--starts N]
                                           [--threads N] [NAME ...]

OLD and NEW are each a folder with a tree of capsule, or a commit of this repository. The networks,
their sizes, batches and optimizers are those of `manifests/minis`. For each start both trees run in
a process of their own, which stays; a block is so many steps of the one, while the other waits, and
the side that goes first changes from block to block. Printed is the ratio of the medians of all
blocks, NEW over OLD, with its 95 % interval (bootstrap over pairs of blocks). Beside it stands the
median of the ratios within pairs: on a machine whose speed changes from minute to minute, which a
virtual one's does, it is the narrower one by far, since both blocks of a pair see the same speed.
Where memory lies differs from start to start by about one percent, so blocks are spread over
several starts. Ends with 1 where the upper end of an interval within pairs is `LIMIT` or more.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy
from ddp_steps import KEEPING
from overhead import Estimate
from training_steps import Row, describe, write

ROOT = Path(__file__).parents[2]
LIMIT = 1.02
NAMES = ("resnet9", "cosmoflow", "transformer")
WARMUP = 2
"""Blocks of each side that are not counted; the first one holds the checks of the training."""

_COUNTS = ("samples", "test_samples")
_RESAMPLES = 10_000


@dataclass
class Side:
    """One tree in a process.

    Attributes:
        tree: Folder that holds its package.
        process: What `tree_steps.py` runs in.
    """

    tree: Path
    process: subprocess.Popen[str]

    @classmethod
    def start(cls, tree: Path, job: Path, threads: int) -> Side:
        settings = {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": str(threads), **KEEPING}
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("tree_steps.py")), str(job)],
            env={**os.environ, **settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return cls(tree, process)

    def check(self) -> None:
        """Refuse a process that runs another capsule."""
        found = Path(self.read())
        if found.resolve() != self.tree.resolve():
            raise SystemExit(f"the process of {self.tree} runs the capsule of {found}")

    def read(self) -> Any:
        """The next line that it prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the training of {self.tree} has ended, see above")
        return json.loads(line)

    def block(self) -> float:
        """Seconds of one more block."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.read())

    def close(self) -> None:
        """Let it end where it waits."""
        self.process.communicate()


def read_row(name: str) -> tuple[Row, dict[str, Any]]:
    """A mini as the manifests have it, and its optimizer and schedule."""
    document = json.loads((ROOT / "manifests" / "minis" / f"{name}.json").read_text())
    (entry,) = document["benchmarks"]
    dataset = dict(document["datasets"][entry["datasets"][0]])
    generator = dataset.pop("generator")
    numbers = {key: value for key, value in dataset.items() if key not in ("digest", *_COUNTS)}
    row = Row(entry["network"], entry["cases"][0], generator, numbers, entry["batch"])
    return row, {field: entry[field] for field in ("optimizer", "schedule")}


def compare(
    name: str, trees: tuple[Path, Path], blocks: int, steps: int, threads: int
) -> list[tuple[float, float]]:
    """Seconds of both trees in each pair of blocks, of one start."""
    row, recipe = read_row(name)
    with TemporaryDirectory() as folder, ExitStack() as stack:
        data = Path(folder) / "data"
        data.mkdir()
        document = describe(row, write(row, data, steps), WARMUP + blocks, threads)
        document["trials"][0]["recipe"].update(recipe)
        job = Path(folder) / "job.json"
        job.write_text(json.dumps(document))
        sides = []
        for tree in trees:
            sides.append(Side.start(tree, job, threads))
            stack.callback(sides[-1].close)
            sides[-1].check()
        for side in sides:
            side.read()
            for _ in range(WARMUP - 1):
                side.block()
        pairs = []
        for number in range(blocks):
            seconds = {place: sides[place].block() for place in (number % 2, 1 - number % 2)}
            pairs.append((seconds[0], seconds[1]))
    return pairs


def estimate(pairs: Sequence[tuple[float, float]]) -> tuple[Estimate, Estimate]:
    """The ratio of the medians, the second over the first, and the median of the ratios.

    Each with its 95 % interval.
    """
    times = numpy.array(pairs)
    chosen = numpy.random.default_rng(1).integers(0, len(times), (_RESAMPLES, len(times)))
    medians = numpy.median(times[chosen], axis=1)
    old, new = numpy.median(times, axis=0)
    ratios = times[:, 1] / times[:, 0]
    within = numpy.median(ratios[chosen], axis=1)
    return (
        _interval(float(new / old), medians[:, 1] / medians[:, 0]),
        _interval(float(numpy.median(ratios)), within),
    )


def _interval(middle: float, resampled: numpy.ndarray) -> Estimate:
    low, high = numpy.quantile(resampled, (0.025, 0.975))
    return Estimate(middle, float(low), float(high))


def find_tree(word: str, folder: Path) -> Path:
    """A folder as it is, or the package of a commit, written below another folder."""
    if Path(word).is_dir():
        return Path(word)
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", word, "capsule"], capture_output=True, check=True
    )
    folder.mkdir()
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", metavar="OLD")
    parser.add_argument("new", metavar="NEW")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--blocks", type=int, default=10, help="of each side in a start")
    parser.add_argument("--steps", type=int, default=50, help="of a block")
    parser.add_argument("--starts", type=int, default=6)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    blocks, steps, threads = arguments.blocks, arguments.steps, arguments.threads
    print(
        f"Python {platform.python_version()}, {threads} threads, {arguments.starts} starts of"
        f" {blocks} blocks of {steps} steps a side, load {os.getloadavg()[0]:.1f}; {arguments.new}"
        f" / {arguments.old}, ratio with its 95 % interval"
    )
    print("| network | step | of medians | within pairs |")
    print("|---|--:|---|---|")
    missed = []
    with TemporaryDirectory() as folder:
        words = {"old": arguments.old, "new": arguments.new}
        old, new = (find_tree(word, Path(folder) / side) for side, word in words.items())
        for name in arguments.names or NAMES:
            pairs = []
            for _ in range(arguments.starts):
                pairs += compare(name, (old, new), blocks, steps, threads)
                shown = ", ".join(one.show(4) for one in estimate(pairs))
                print(f"{name}: {shown}", file=sys.stderr)
            ratio, within = estimate(pairs)
            step = 1e3 * Estimate.of([one for one, _ in pairs]).middle / steps
            print(f"| {name} | {step:.2f} ms | {ratio.show(4)} | {within.show(4)} |", flush=True)
            if within.high >= LIMIT:
                missed.append(f"{name}: a step may take {within.high:.4f} times as long as before")
    print("\n".join(missed) or "no limit is missed")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
