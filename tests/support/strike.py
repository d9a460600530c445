"""Run `levels` on a job, and kill this process in the middle of it.

    python -m tests.support.strike WHERE NUMBER job.json journal.jsonl

WHERE is `step` (before step NUMBER of all), or, of checkpoint NUMBER, `half` (half of it written),
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


def main(where: str, number: int, job: str, journal: str) -> int:
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)

    rate, savez, replace = Schedule.rate, numpy.savez, Path.replace

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
        "half": (numpy, "savez", half),
        "whole": (Path, "replace", whole),
        "placed": (Path, "replace", placed),
    }[where]
    setattr(owner, name, planted)
    return run.main(Path(job), Path(journal))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
