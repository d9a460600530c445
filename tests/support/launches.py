"""Ranks of a line of shell each, for launchers to start."""

from __future__ import annotations

import signal
from pathlib import Path

from capsule.launch.base import RENDEZVOUS
from capsule.runtimes.base import Ended, Invocation

WAITS = "echo >>there; trap 'exit 7' TERM; while :; do sleep 0.01; done"
"""A line that notes that it is there, and ends when it is killed."""
THEN = "while [ ! -e there ]; do sleep 0.01; done; "
"""Begins a line that goes on once a rank of `WAITS` is there."""
WELL = Ended(exit_code=0, signal=None)
TAKEN = Ended(exit_code=None, signal=signal.SIGTERM)
KILLED = Ended(exit_code=None, signal=signal.SIGKILL)


def label(folder: Path) -> str:
    """Marks what is started in a folder."""
    return f"test-{folder}"


def ranks(folder: Path, *scripts: str) -> list[Invocation]:
    """One for each line of shell, which writes beside `FOLDER/RANK/out`."""
    invocations = []
    for number, script in enumerate(scripts):
        logs = folder / str(number)
        logs.mkdir()
        invocations.append(
            Invocation(
                command=("sh", "-c", script),
                environment={RENDEZVOUS: "file:///nowhere"},
                mounts=(),
                cwd=str(folder),
                label=label(folder),
                stdout=logs / "out",
                stderr=logs / "err",
            )
        )
    return invocations
