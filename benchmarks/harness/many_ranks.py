"""What the journals of thousands of ranks take to be read and put together.

    python benchmarks/harness/many_ranks.py [--ranks N] [--steps N]

Each of N ranks has written what a rank of a training by all-reduce writes: seven values a step, and
the first one what it alone measures. Their journals are written by the program's own writer, then
read, put together and judged as after a run of one process start. Prints the bytes that they have,
seconds and the most memory of the process; ends with 1 where that is more than 10 s or 2 GiB.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[2]))

from capsule import manifest, plan
from capsule.execute import journal, reports
from capsule.levels.journal import Journal, Samples
from capsule.manifest import Manifest
from capsule.plan import Trial

LIMIT_SECONDS, LIMIT_BYTES = 10.0, 2 << 30
_ON_NODE = 64
_STEPS = {"bytes_sent", "bytes_received", "messages"}
_STEPS |= {"communication_time", "wait_time", "step_time"}


def ask(ranks: int) -> Manifest:
    """A manifest of one training of so many ranks."""
    shipped = json.loads((Path(__file__).parents[2] / "manifests" / "level3.json").read_text())
    del shipped["$schema"]
    training = {**shipped["benchmarks"][0], "batch": ranks}
    on_node = min(ranks, _ON_NODE)
    document = {
        **shipped,
        "seeds": [17],
        "benchmarks": [training],
        "claims": [{"metric": "*/*/*/bytes_sent", "type": "exact"}],
        "resources": {"nodes": ranks // on_node, "ranks_per_node": on_node, "cpus_per_rank": 1},
    }
    return manifest.read(json.dumps(document).encode(), where="many.json", folder=None)


def write(path: Path, trial: Trial, rank: int, ranks: int, steps: int) -> None:
    """What one rank writes of a trial: values that differ, as times do."""
    due = trial.benchmark.due(trial.framework)
    with Journal(path) as written:
        written.hello(rank, ranks, {"python": "3.11.2"}, {"threads": 1})
        written.begin(trial.id)
        for metric in due:
            if metric.name == "world_size":
                values: tuple[float, ...] = (float(ranks),)
            elif metric.name in _STEPS:
                values = tuple(1e-3 + (rank * 31 + step) * 1e-9 for step in range(steps))
            elif metric.per == "rank" or rank == 0:
                values = (1.0 + rank * 1e-6,)
            else:
                continue
            at = (1.0,) if metric.per == "step" else None
            written.samples(trial.id, Samples(metric=metric.name, values=values, steps=at))
        written.end(trial.id, None, "", 1.0)
        written.bye()


def main() -> int:
    """Write them, read them and print what that took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--ranks", type=int, default=4096, help=f"a multiple of {_ON_NODE}, or fewer"
    )
    parser.add_argument("--steps", type=int, default=100)
    asked = parser.parse_args()
    (group,) = plan.make(ask(asked.ranks)).groups
    (trial,) = group.trials
    with TemporaryDirectory() as name:
        paths = [Path(name, f"{rank:05}.jsonl") for rank in range(asked.ranks)]
        for rank, path in enumerate(paths):
            write(path, trial, rank, asked.ranks, asked.steps)
        size = sum(path.stat().st_size for path in paths)
        began, own = time.perf_counter(), time.process_time()
        journals = [
            journal.read(path, group.trials, rank=rank, ranks=asked.ranks)
            for rank, path in enumerate(paths)
        ]
        read = time.process_time() - own
        merged = reports.merge(journals, group.trials)
        seconds, processor = time.perf_counter() - began, time.process_time() - own
    peak = _read_peak()
    (report,) = merged.reports
    print(
        f"{asked.ranks} ranks, {size / 1e6:.0f} MB: {report.outcome} {report.message}\n"
        f"  {processor:.1f} s of processor time, of which {read:.1f} s to read; {seconds:.1f} s;"
        f" {peak / 2**20:.0f} MiB"
    )
    return int(processor > LIMIT_SECONDS or peak > LIMIT_BYTES or report.outcome != "completed")


def _read_peak() -> int:
    """Return the most bytes that this program had resident.

    `ru_maxrss` counts the process that started this one too.
    """
    (line,) = re.findall(r"^VmHWM:\s*(\d+) kB$", Path("/proc/self/status").read_text(), re.M)
    return int(line) * 1024


if __name__ == "__main__":
    sys.exit(main())
