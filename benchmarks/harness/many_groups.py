"""What a run of thousands of process starts costs beyond starting them, and how soon it resumes.

    python benchmarks/harness/many_groups.py [--groups N] [--slices N]

A run of N trials of a command that writes one number, in turn with a bare loop that starts the same
command with the same variables and waits for it: slices of both take turns in this process, so that
a machine that slows down slows both. Printed are milliseconds a group beyond the bare loop, the
last slice's too, since what grows with the number of groups shows there; and the seconds that a
finished run of N groups needs to be opened again. Ends with 1 when a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from capsule import manifest, plan, resolve, session
from capsule.execute import loop
from capsule.execute.workspace import Workspace
from capsule.session import Session, Terms
from capsule.watch import SILENT

# of a manifest
MOST_SEEDS = 1000
LIMIT_MS = 2.0
LIMIT_RESUME_SECONDS = 2.0
SCRIPT = 'echo "{\\"metric\\": \\"n\\", \\"value\\": $CAPSULE_SEED}" >"$CAPSULE_RESULTS"'
COMMAND = ["sh", "-c", SCRIPT]


def begin(folder: Path, groups: int) -> Session:
    """A run of so many groups of one trial, begun in the folder."""
    seeds = min(groups, MOST_SEEDS)
    benchmarks = [
        {"id": f"tiny{number}", "command": COMMAND, "metrics": {"n": {}}}
        for number in range(groups // seeds)
    ]
    document = {
        "name": "many",
        "title": "Many process starts",
        "authors": [{"name": "A. Author"}],
        "license": "CC0-1.0",
        "seeds": list(range(seeds)),
        "benchmarks": benchmarks,
    }
    path = folder / "many.json"
    path.write_text(json.dumps(document))
    asked = manifest.load(path)
    resolved = resolve.resolve(
        resolve.Request(manifest=asked, runtime="host", inputs=folder), SILENT
    )
    return session.begin(plan.make(asked), resolved, Terms(), work=folder / "many.run")


def bare(folder: Path, seeds: range) -> float:
    """Seconds of a loop that starts the command once for each seed and waits for it."""
    began = time.perf_counter()
    for seed in seeds:
        with (folder / "out.txt").open("ab") as out:
            subprocess.run(
                COMMAND,
                env={
                    "PATH": os.environ["PATH"],
                    "CAPSULE_SEED": str(seed),
                    "CAPSULE_RESULTS": str(folder / "results.jsonl"),
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                check=True,
            )
    return time.perf_counter() - began


def slices(current: Session, folder: Path, count: int) -> Iterator[tuple[float, float]]:
    """Milliseconds a group of each slice: of the run, and of the bare loop beside it."""
    groups = current.plan.groups
    size = len(groups) // count
    for number in range(count):
        part = replace(current.plan, groups=groups[number * size : (number + 1) * size])
        began = time.perf_counter()
        loop.run(current.workspace, part, current.setting, SILENT)
        ours = time.perf_counter() - began
        yield 1e3 * ours / size, 1e3 * bare(folder, range(size)) / size


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", type=int, default=5000)
    parser.add_argument("--slices", type=int, default=10)
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="capsule-") as name:
        folder = Path(name)
        current = begin(folder, arguments.groups)
        with current.workspace.lock():
            measured = list(slices(current, folder, arguments.slices))
        beyond = [ours - theirs for ours, theirs in measured]
        began = time.perf_counter()
        reopened = Workspace.open(current.workspace.folder)
        cut_off = session.reopen(reopened.folder, verifies=None)
        loop.run(cut_off.workspace, cut_off.plan, current.setting, SILENT)
        resume = time.perf_counter() - began
    print(f"{arguments.groups} groups, {arguments.slices} slices in turn with a bare loop")
    print(f"bare loop      {statistics.median(theirs for _, theirs in measured):.2f} ms a group")
    print(f"beyond it      {statistics.median(beyond):.2f} ms a group (limit {LIMIT_MS:g})")
    print(f"  last slice   {beyond[-1]:.2f} ms")
    print(f"opened again   {resume:.2f} s (limit {LIMIT_RESUME_SECONDS:g})")
    missed = statistics.median(beyond) > LIMIT_MS or resume > LIMIT_RESUME_SECONDS
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
