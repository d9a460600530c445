"""Ping-pong between two ranks of MPI as capsule measures it, beside mpi4py's own benchmark.

    python benchmarks/harness/pingpong.py [--rounds N] [--sizes BYTES,...]

`python -m mpi4py.bench pingpong` and a trial of Level 3 take turns under the `mpirun` on the PATH;
mpi4py has to be importable. Each gives one time a size and round, the mean of rank 0's calls, as
that one prints no other. The table has the median ratio of all rounds, the lowest and the highest.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, median

LEVELS = Path(__file__).parents[2] / "capsule" / "levels"
CALLS, WARMUP = 300, 30


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sizes", default="8,1024,32768,1048576", help="powers of two")
    options = parser.parse_args()
    sizes = [int(word) for word in options.sizes.split(",")]
    ours: dict[int, list[float]] = {size: [] for size in sizes}
    theirs: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(options.rounds):
        for size in sizes:
            theirs[size].append(_run_theirs(size))
        for size, seconds in zip(sizes, _run_ours(sizes), strict=True):
            ours[size].append(seconds)
    print("| bytes | capsule, s | mpi4py.bench, s | ratio | lowest | highest |")
    print("| --: | --: | --: | --: | --: | --: |")
    for size in sizes:
        ratios = sorted(one / other for one, other in zip(ours[size], theirs[size], strict=True))
        seconds = f"{median(ours[size]):.3g} | {median(theirs[size]):.3g}"
        print(f"| {size} | {seconds} | {median(ratios):.2f} | {ratios[0]:.2f} | {ratios[-1]:.2f} |")


def _run_theirs(size: int) -> float:
    """Seconds of one way, its mean."""
    counts = ["-s", WARMUP, "-l", CALLS, "--skip-large", WARMUP, "--loop-large", CALLS]
    words = [sys.executable, "-m", "mpi4py.bench", "pingpong", "-m", size, "-n", size, *counts]
    words += ["--skip-huge", WARMUP, "--loop-huge", CALLS]
    return float(_start(*words).splitlines()[-1].split("|")[1].split()[0])


def _run_ours(sizes: list[int]) -> list[float]:
    """Mean seconds of one way on rank 0, by size."""
    trials = [
        {
            **{"id": str(size), "benchmark": "pingpong", "level": 3, "dtype": "float32"},
            **{"case": str(size), "parameters": {}, "datasets": []},
            **{"repetitions": CALLS, "warmup": WARMUP},
            "collective": {"name": "ping-pong", "size": size},
        }
        for size in sizes
    ]
    job = {
        **{"format": "capsule-job/1", "framework": "numpy", "seed": 1, "determinism": "default"},
        **{"device": "cpu", "threads": 1, "ranks": 2, "data": {}, "trials": trials},
    }
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "job.json"
        path.write_text(json.dumps(job))
        line = (
            "export CAPSULE_RANK=${PMI_RANK:-$OMPI_COMM_WORLD_RANK} CAPSULE_RENDEZVOUS=file:///none;"
            f' exec "$@" {scratch}/$CAPSULE_RANK.jsonl'
        )
        _start("sh", "-c", line, "sh", sys.executable, LEVELS, "run", path)
        events = map(json.loads, (Path(scratch) / "0.jsonl").read_text().splitlines())
        seconds: dict[str, list[float]] = {}
        for event in events:
            if event.get("metric") == "latency":
                values = event["values"][event["warmup"] :]
                seconds.setdefault(event["trial"], []).extend(values)
    return [mean(seconds[str(size)]) for size in sizes]


def _start(*words: object) -> str:
    """What two ranks print that `mpirun` starts."""
    command = ["mpirun", "-n", "2", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
