"""Steps of our ranks against a hand-written loop with DistributedDataParallel, in the same ranks.

    python benchmarks/harness/ddp_steps.py [--starts N] [--rounds N] [--ranks N] [--scheme NAME]
                                           [NAME ...]

Each rank is a process of one thread, and they meet over gloo. A trial of Level 3 runs in them as in
any capsule; between two of its epochs the loop of `training_steps.Loop`, its network wrapped in
torch's `DistributedDataParallel` with a process group of its own, trains for as many steps on the
rank's share of the same batches. Before each turn of either all ranks meet, and the first rank's
clock tells how long it takes. What counts as ours, and how turns are compared, is as in
`training_steps.py`. The C library is told to keep the memory that it has: else it hands large
arrays back, and page faults, which take up to half of a step, come now more to one side and now to
the other. Where memory lies and what the cores are given differs from start to start by more than
one percent, for either side: so the ranks are started many times, each start has one ratio, the
median of its rounds, and the interval is of the median over the starts. Ends with 1 where a step of
`FROM_MS` or more may take `LIMIT` times the loop's or more: by the upper end of the interval.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from overhead import Estimate
from training_steps import FROM_MS, LIMIT, WARMUP, Loop, Row, Turns, describe, write

from capsule.levels import frameworks, job
from capsule.levels.journal import Samples
from capsule.levels.report import Report

SCHEMES = {
    "allreduce": {},
    # as large as those of DistributedDataParallel
    "bucketed": {"bucket_bytes": 25 << 20},
}

_LENET, _PICTURES = {"side": 28, "classes": 10}, {"side": 28}
_FIELDS = ("volume", "target")

KEEPING = {
    "MALLOC_MMAP_THRESHOLD_": f"{1 << 30}",
    "MALLOC_TRIM_THRESHOLD_": f"{1 << 31}",
    "MALLOC_TOP_PAD_": f"{1 << 26}",
}
"""What glibc goes by, see mallopt(3)."""

ROWS = (
    Row("lenet", _LENET, "glyphs", _PICTURES, 2048),
    Row("resnet44", {"side": 32, "classes": 10}, "glyphs", {"side": 32, "channels": 3}, 16),
    Row("cosmoflow", {"side": 32, "width": 16}, "universe", {"side": 32}, 8, _FIELDS),
)
"""With the batch of all ranks."""


class Together(Loop):
    """What is written by hand where many ranks train."""

    def wrap(self, model: Any) -> Any:
        """Statistics of batches stay each rank's own, as they do in ours."""
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        group = dist.new_group()
        return DistributedDataParallel(model, process_group=group, forward_sync_buffers=False)

    def choose(self, batch: Any) -> Any:
        """The rank's share."""
        import torch.distributed as dist

        share = len(batch) // dist.get_world_size()
        return batch[dist.get_rank() * share :][:share]


class Met(Turns):
    """Turns that all ranks begin together."""

    def write(self, samples: Samples) -> None:
        """A line of the trial's journal."""
        import torch.distributed as dist

        is_end = samples.metric == "epoch_time"
        if is_end:
            dist.barrier()
        super().write(samples)
        if is_end:
            dist.barrier()
            self.begin()


class Everything(Report):
    """The report of a rank that tells what only the first one would."""

    def restrict(self, metrics: Any) -> None:
        """Of nothing."""


def train(row: Row, folder: Path, steps: int, rounds: int, ranks: int, scheme: str) -> Turns:
    """Take turns in one of the ranks, which the environment names."""
    from capsule.levels import level2
    from capsule.levels.catalog.splitting import Work
    from capsule.levels.communicators import connect
    from capsule.levels.level3.ranks import Ranks

    document = describe(row, folder, WARMUP + rounds, 1)
    document["ranks"] = ranks
    (entry,) = document["trials"]
    entry["level"] = job.TOGETHER
    entry["recipe"]["scheme"] = {"name": scheme, **SCHEMES[scheme]}
    (trial,) = job.parse(document, os.environ).trials
    context, recipe = trial.context, trial.recipe
    assert recipe is not None
    framework = frameworks.load("torch", "cpu", 1, "default")
    with connect(context.rank, context.ranks, context.rendezvous, trial.id):
        turns = Met(Together(row, folder, steps))
        team = Ranks(recipe, context.threads, Work(trial.subject, {}, recipe.batch, 1))
        level2.train(trial, framework, Everything(turns.write), team)
    return turns


def start(
    row: Row, data: Path, ranks: int, steps: int, rounds: int, scheme: str
) -> tuple[float, float]:
    """Seconds of a step of the loop in the first rank, and ours over the loop's, of one start."""
    own = [sys.executable, __file__, row.network, "--ranks", f"{ranks}", "--scheme", scheme]
    own += ["--steps", f"{steps}", "--rounds", f"{rounds}", "--data", f"{data}"]
    own += ["--batch", f"{row.batch}"]
    with TemporaryDirectory() as name, ExitStack() as stack:
        settings = {"OMP_NUM_THREADS": "1", job.RENDEZVOUS: f"file://{name}/meet", **KEEPING}
        started = [
            stack.enter_context(
                subprocess.Popen(
                    own,
                    env={**os.environ, **settings, job.RANK: str(rank)},
                    stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                )
            )
            for rank in range(ranks)
        ]
        answer, _ = started[0].communicate()
    if any(one.returncode for one in started):
        raise SystemExit(f"{row.name}: a rank failed, see above")
    taken = json.loads(answer)
    return statistics.median(taken["theirs"]) / steps, statistics.median(taken["ratios"])


def compare(
    row: Row, ranks: int, steps: int, rounds: int, scheme: str, starts: int
) -> tuple[float, Estimate]:
    """Seconds of a step of the loop, and ours over the loop's: of as many starts of the ranks."""
    with TemporaryDirectory() as name:
        data = Path(name)
        write(row, data, steps)
        pairs = []
        for _ in range(starts):
            pairs.append(start(row, data, ranks, steps, rounds, scheme))
            print(f"{row.name}: {pairs[-1][1]:.4f}", file=sys.stderr)
    seconds, ratios = zip(*pairs, strict=True)
    return statistics.median(seconds), Estimate.of(ratios)


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--starts", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=4, help="of each start")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=24, help="of an epoch")
    parser.add_argument("--scheme", default="bucketed", choices=SCHEMES)
    parser.add_argument("--data", type=Path, help="as one of the ranks that the environment names")
    parser.add_argument("--batch", type=int, help="likewise, of all ranks")
    arguments = parser.parse_args()
    ranks, steps, rounds = arguments.ranks, arguments.steps, arguments.rounds
    scheme = arguments.scheme
    rows = [row for row in ROWS if not arguments.names or row.network in arguments.names]
    import torch

    if arguments.data:
        row = replace(rows[0], batch=arguments.batch)
        turns = train(row, arguments.data, steps, rounds, ranks, scheme)
        taken = {"theirs": [turn.wall for turn in turns.theirs], "ratios": turns.ratios("wall")}
        print(json.dumps(taken))
        return 0
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, {ranks} ranks of one"
        f" thread, {scheme}, {arguments.starts} starts, {rounds} rounds of {steps} steps, load"
        f" {os.getloadavg()[0]:.1f}; ours / DistributedDataParallel, median [95 % interval]"
    )
    print("| network | step | by the wall |")
    print("|---|--:|---|")
    missed = []
    for row in rows:
        step, ratio = compare(row, ranks, steps, rounds, scheme, arguments.starts)
        print(f"| {row.name} | {1e3 * step:.1f} ms | {ratio.show(4)} |", flush=True)
        if 1e3 * step >= FROM_MS and ratio.high >= LIMIT:
            missed.append(f"{row.name}: a step may take {ratio.high:.4f} times the loop's")
    print("\n".join(missed) or "no limit is missed")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
