"""Steps of our training against a hand-written loop over the same network, data and optimizer.

    python benchmarks/harness/training_steps.py [--rounds N] [--threads N] [--seconds S] [NAME ...]

A trial of Level 2 runs as in any capsule; between two of its epochs the loop of `Loop.epoch` trains
a `torch.nn` network with torch's own optimizer for as many steps, so the two take turns in one
process. Each epoch of ours is compared with the mean of the two epochs of the loop around it, which
takes out whatever grows or shrinks slowly. Printed is the median ratio with its 95 % interval, once
by the clock on the wall and once by the processor time of the process, which others on the machine
disturb less. All of ours counts: from the report before an epoch to the report of its loss, the
drawing of the order, the gathering of samples, the rate of each step and the sum of losses
included. Ends with 1 where a step of `FROM_MS` or more takes `LIMIT` times the loop's or more for
certain: by the lower end of both intervals.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from overhead import Estimate

from capsule.levels import frameworks, job, level2
from capsule.levels.data import generators
from capsule.levels.journal import Samples
from capsule.levels.report import Report

LIMIT = 1.01
FROM_MS = 50.0
WARMUP = 2
"""Epochs of ours that are not counted."""

_MOMENTUM, _RATE = 0.9, 1e-3


@dataclass(frozen=True)
class Row:
    """One network on one kind of data.

    Attributes:
        network: Key of the catalogue.
        sizes: Of the network.
        generator: Makes the data.
        parameters: Of the generator, without the number of samples.
        batch: Samples of a step.
        arrays: What the network takes, and what it is to say.
    """

    network: str
    sizes: Mapping[str, int]
    generator: str
    parameters: Mapping[str, int]
    batch: int
    arrays: tuple[str, str] = ("image", "label")

    @property
    def name(self) -> str:
        """For the table."""
        sizes = " ".join(f"{key} {value}" for key, value in self.sizes.items())
        return f"{self.network}, {sizes}, batch {self.batch}"


_LENET, _PICTURES = {"side": 28, "classes": 10}, {"side": 28}
_FIELDS = ("volume", "target")

ROWS = (
    Row("lenet", _LENET, "glyphs", _PICTURES, 16),
    Row("lenet", _LENET, "glyphs", _PICTURES, 128),
    Row("resnet44", {"side": 32, "classes": 10}, "glyphs", {"side": 32, "channels": 3}, 4),
    Row("cosmoflow", {"side": 32, "width": 8}, "universe", {"side": 32}, 4, _FIELDS),
    Row("cosmoflow", {"side": 32, "width": 16}, "universe", {"side": 32}, 16, _FIELDS),
)


@dataclass
class Turn:
    """Seconds of one epoch, by both clocks."""

    wall: float
    processor: float


class Loop:
    """What is written by hand where nobody measures."""

    def __init__(self, row: Row, folder: Path, steps: int) -> None:
        import torch
        from torch.nn import functional

        from tests.support import torch_networks

        inputs, due = (generators.read(folder)[name] for name in row.arrays)
        self._inputs, self._due = torch.tensor(inputs), torch.tensor(due)
        self._loss = (
            functional.mse_loss if self._due.is_floating_point() else functional.cross_entropy
        )
        torch.manual_seed(1)
        self._model = self.wrap(torch_networks.MODELS[row.network](row.sizes))
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=_RATE, momentum=_MOMENTUM)
        self._schedule = torch.optim.lr_scheduler.ConstantLR(self._optimizer, 1.0)
        self._batch, self._steps = row.batch, steps

    def epoch(self) -> float:
        """The mean loss of so many steps."""
        import torch

        order = torch.randperm(len(self._due))
        losses = []
        for step in range(self._steps):
            chosen = self.choose(order[step * self._batch : (step + 1) * self._batch])
            # twice as fast as to write self._inputs[chosen]
            inputs = self._inputs.index_select(0, chosen)
            due = self._due.index_select(0, chosen)
            self._optimizer.zero_grad()
            loss = self._loss(self._model(inputs), due)
            loss.backward()
            self._optimizer.step()
            self._schedule.step()
            losses.append(loss.detach())
        return float(torch.stack(losses).mean())

    def wrap(self, model: Any) -> Any:
        """The network as it is trained."""
        return model

    def choose(self, batch: Any) -> Any:
        """Of a batch what is trained here."""
        return batch

    def turn(self) -> Turn:
        """One epoch, timed."""
        wall, processor = perf_counter(), process_time()
        self.epoch()
        return Turn(perf_counter() - wall, process_time() - processor)


@dataclass
class Turns:
    """Takes what a trial reports, and lets the loop run behind each epoch of ours."""

    loop: Loop
    ours: list[Turn] = field(default_factory=list)
    theirs: list[Turn] = field(default_factory=list)
    _wall: float = 0.0
    _processor: float = 0.0

    def write(self, samples: Samples) -> None:
        """A line of the trial's journal."""
        wall, processor = perf_counter(), process_time()
        if samples.metric == "train_loss":
            self.ours.append(Turn(wall - self._wall, processor - self._processor))
        elif samples.metric == "epoch_time":
            self.theirs.append(self.loop.turn())
        self.begin()

    def begin(self) -> None:
        """What is reported next began now."""
        self._wall, self._processor = perf_counter(), process_time()

    def ratios(self, clock: str) -> list[float]:
        """Ours over the loop's, of every epoch that lies between two of the loop's."""
        ours, theirs = (
            [getattr(turn, clock) for turn in turns] for turns in (self.ours, self.theirs)
        )
        # the loop's n-th epoch runs behind ours
        return [
            2 * ours[place] / (theirs[place - 1] + theirs[place])
            for place in range(WARMUP, len(theirs))
        ]


def compare(row: Row, rounds: int, threads: int, seconds: float) -> tuple[int, Turns]:
    """How many steps an epoch has, and what the epochs took."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        loop = Loop(row, write(row, folder, 4), 4)
        loop.turn()
        steps = max(1, round(seconds * 4 / loop.turn().wall))
        write(row, folder, steps)
        turns = Turns(Loop(row, folder, steps))
        (trial,) = job.parse(describe(row, folder, WARMUP + rounds, threads), {}).trials
        framework = frameworks.load("torch", "cpu", threads, "default")
        level2.measure(trial, framework, Report(turns.write))
    return steps, turns


def write(row: Row, folder: Path, steps: int) -> Path:
    """Make the data of so many steps in a folder, which is returned."""
    counts = {"samples": steps * row.batch, "test_samples": row.batch}
    for path in folder.iterdir():
        path.unlink()
    generators.write(generators.generate(row.generator, {**row.parameters, **counts}), folder)
    return folder


def describe(row: Row, folder: Path, epochs: int, threads: int) -> dict[str, Any]:
    """The job of one trial that trains a network on the data of a folder."""
    return {
        "format": job.FORMAT,
        "framework": "torch",
        "seed": 1,
        "determinism": "default",
        "device": "cpu",
        "threads": threads,
        "ranks": 1,
        "data": {"samples": str(folder)},
        "trials": [
            {
                "id": "steps/default/torch/1",
                "benchmark": "steps",
                "level": 2,
                "network": row.network,
                "dtype": "float32",
                "case": "default",
                "parameters": dict(row.sizes),
                "datasets": ["samples"],
                "recipe": {
                    "batch": row.batch,
                    "epochs": epochs,
                    "optimizer": {"name": "sgd", "lr": _RATE, "momentum": _MOMENTUM},
                    "schedule": {"name": "constant"},
                },
            }
        ],
    }


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.1, help="of an epoch, about")
    arguments = parser.parse_args()
    rows = [row for row in ROWS if not arguments.names or row.network in arguments.names]
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    import torch

    torch.set_num_threads(arguments.threads)
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, {arguments.threads}"
        f" threads, {arguments.rounds} rounds, load {os.getloadavg()[0]:.1f}; ours / loop,"
        " median [95 % interval]"
    )
    print("| network | step | steps of a turn | by the wall | by processor time |")
    print("|---|--:|--:|---|---|")
    missed = []
    for row in rows:
        steps, turns = compare(row, arguments.rounds, arguments.threads, arguments.seconds)
        wall, processor = (Estimate.of(turns.ratios(clock)) for clock in ("wall", "processor"))
        step = 1e3 * Estimate.of([turn.wall for turn in turns.theirs]).middle / steps
        print(
            f"| {row.name} | {step:.1f} ms | {steps} | {wall.show(4)} | {processor.show(4)} |",
            flush=True,
        )
        if step >= FROM_MS and min(wall.low, processor.low) >= LIMIT:
            missed.append(f"{row.name}: a step takes {wall.show(4)} times the loop's")
    print("\n".join(missed) or "no limit is missed")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
