"""Run `levels` on a job, and kill this process in the middle of it.

    python -m tests.support.strike WHERE NUMBER job.json journal.jsonl

WHERE is `step` (before step NUMBER of all), `gathered` (before minibatch NUMBER is, none of those
that are held to the reference counted), or, of checkpoint NUMBER, `half` (half of it written),
`whole` (all of it, under its passing name) or `placed` (in its place).
"""

import io
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy

from capsule.levels import run
from capsule.levels.catalog.schedules import Schedule
from capsule.levels.level2.prepared import Prepared


def plant(where: str, number: int) -> None:
    """Have this process killed there."""
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)

    rate, savez, replace = Schedule.rate, numpy.savez, Path.replace
    gather = Prepared.gather

    def gathered(trial: Prepared, epoch: int, number: int, indices: Any) -> dict[str, Any]:
        count()
        return gather(trial, epoch, number, indices)

    def counted_rate(schedule: Schedule, step: int, per_epoch: int) -> float:
        count()
        return rate(schedule, step, per_epoch)

    def half(stream: Any, **parts: Any) -> None:
        data = io.BytesIO()
        savez(data, **parts)
        stream.write(data.getvalue()[: data.tell() // 2])
        stream.flush()
        count()
        stream.write(data.getvalue()[data.tell() // 2 :])

    def whole(source: Path, target: Path) -> Path:
        count()
        return replace(source, target)

    def placed(source: Path, target: Path) -> Path:
        done = replace(source, target)
        count()
        return done

    owner, name, planted = {
        "step": (Schedule, "rate", counted_rate),
        "gathered": (Prepared, "gather", gathered),
        "half": (numpy, "savez", half),
        "whole": (Path, "replace", whole),
        "placed": (Path, "replace", placed),
    }[where]
    setattr(owner, name, planted)


if __name__ == "__main__":
    plant(sys.argv[1], int(sys.argv[2]))
    sys.exit(run.main(*map(Path, sys.argv[3:])))
