"""Program that samples devices until its standard input ends.

    python -P -m capsule.telemetry.sampler REQUEST

It writes a trace, see `trace`, and the line `ready` to its standard output after the first
samples. Its input has lines that the trace keeps as marks: `begin SECONDS` and `end SECONDS`, by
the monotonic clock of the node. After the second one it takes a last sample, and ends.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from capsule.telemetry import sources
from capsule.telemetry.sources import Device

PERIOD_SECONDS = 0.1
READY = b"ready\n"
FORMAT = "capsule-trace/1"
_MOST_COMMAND_BYTES = 4096
_COMMANDS, _ANSWERS = 0, 1

Wait = Callable[[float], Sequence[str] | None]
"""Waits at most so many seconds; returns lines of the input, or None after its end."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Devices to sample, and the file for their trace.

    Attributes:
        path: File of the trace, which must not exist.
        vendor, names: The devices, see `sources.find`.
        has_packages: True to sample the processor packages too.
        label: Label that marks the workload's processes.
        ancestor: Process that starts the workload.
        root: Root of the machine's file tree.
    """

    path: str
    vendor: str | None
    names: tuple[str, ...]
    has_packages: bool
    label: str
    ancestor: int
    root: str = "/"

    def to_word(self) -> str:
        """Return the request as one word of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_word(cls, word: str) -> Request:
        """Return the request of a word."""
        facts = json.loads(word)
        return cls(**{**facts, "names": tuple(facts["names"])})


def main(request: Request) -> None:
    """Sample the requested devices until the input ends."""
    root = Path(request.root)
    is_own = sources.tell_own(request.label, request.ancestor, root)
    devices, close = sources.find(request.vendor, request.names, is_own, root)
    if request.has_packages:
        devices += sources.find_packages(root)
    try:
        with Path(request.path).open("x", buffering=1, encoding="ascii") as stream:

            def write(line: object) -> None:
                stream.write(json.dumps(line, separators=(",", ":")) + "\n")

            header = [one.facts._asdict() for one in devices]
            write({"format": FORMAT, "devices": header})
            run(devices, write, time.monotonic, Commands(_COMMANDS), _say_ready)
    finally:
        close()


def run(
    devices: Sequence[Device],
    write: Callable[[object], None],
    clock: Callable[[], float],
    wait: Wait,
    say_ready: Callable[[], None],
) -> None:
    """Sample at a fixed rate; turns that come too late are left out.

    Args:
        devices: What is sampled.
        write: Takes each line of the trace after the header.
        clock: Seconds that never go back.
        wait: See `Wait`.
        say_ready: Called once after the first samples.
    """

    def sample() -> None:
        for place, device in enumerate(devices):
            write([clock(), place, *device.read()])

    due = clock()
    sample()
    say_ready()
    while True:
        now = clock()
        while due <= now:
            due += PERIOD_SECONDS
        if (said := wait(due - now)) is None:
            return
        for line in said:
            write(line.split())
        # also at once after a mark: the counters at both ends count
        sample()
        if any(line.startswith("end") for line in said):
            return


class Commands:
    """Lines from a pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = ""

    def __call__(self, seconds: float) -> list[str] | None:
        """Return lines that arrive within so many seconds, None after the end of the pipe."""
        readable, _, _ = select.select([self._descriptor], [], [], seconds)
        if not readable:
            return []
        data = os.read(self._descriptor, _MOST_COMMAND_BYTES)
        if not data:
            return None
        *lines, self._rest = (self._rest + data.decode()).split("\n")
        return lines


def _say_ready() -> None:
    # whoever waited may have gone on
    with suppress(OSError):
        os.write(_ANSWERS, READY)


if __name__ == "__main__":
    # the terminal's Ctrl-C is for whoever started it, and closes the input
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(Request.from_word(sys.argv[1]))
