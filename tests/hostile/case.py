"""A case: what is sent, and how capsule must end; what was seen of it."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from tests.support.command import User

_LOOK_MILLISECONDS = 10

Prepare = Callable[[User], Sequence[str | Path]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """Hostile input, and the one end that it may have.

    Attributes:
        name: `door/what-is-wrong`.
        prepare: Makes the input in the user's folder; returns the arguments of capsule. Commands
            that come before (an honest run, a kill) are run in it.
        status: The exit status that is due.
        says: What the last command must print, on either stream.
        says_not: What it must not print.
        mib: Most memory that it may take.
        seconds: Past it the command counts as hanging.
        variables: Of the environment, beside the user's own.
        engine: An engine that it needs, None for none.
    """

    name: str
    prepare: Prepare
    status: int
    says: str
    says_not: str | None = None
    mib: int = 512
    seconds: float = 60.0
    variables: Mapping[str, str] = field(default_factory=dict)
    engine: str | None = None


@dataclass(frozen=True, kw_only=True)
class Seen:
    """How a case ended.

    Attributes:
        status: Exit status, negative for a signal, None when it was still running.
        output: Both streams.
        mib: Its memory at most, looked at a hundred times a second.
        seconds: From its start to its end.
    """

    status: int | None
    output: str
    mib: float
    seconds: float

    def fault(self, case: Case) -> str | None:
        """What of this is not as the case says, None when all is."""
        if self.status is None:
            return f"had not ended after {case.seconds:g} s"
        if self.status != case.status:
            return f"exit status {self.status}, not {case.status}"
        if case.says not in " ".join(self.output.split()):
            return f"does not say {case.says!r}"
        if case.says_not is not None and case.says_not in self.output:
            return f"says {case.says_not!r}"
        if self.mib > case.mib:
            return f"took {self.mib:.0f} MiB, more than {case.mib}"
        return None


def observe(case: Case) -> Seen:
    """Send it to capsule, in a folder and a home of its own."""
    with TemporaryDirectory(prefix="capsule-") as folder:
        user = User.make(Path(folder))
        argv = user.argv(*case.prepare(user))
        with user.talk.open("wb") as talk:
            began = monotonic()
            process = subprocess.Popen(
                argv,
                cwd=user.folder,
                env={**user.environment(), **case.variables},
                stdin=subprocess.DEVNULL,
                stdout=talk,
                stderr=talk,
            )
            status, peak_kib = _wait(process, case.seconds)
            seconds = monotonic() - began
        output = user.talk.read_bytes().decode(errors="replace")
        return Seen(status=status, output=output, mib=peak_kib / 1024, seconds=seconds)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> tuple[int | None, int]:
    """Its exit status, None past its time, and its peak memory in KiB."""
    handle = os.pidfd_open(process.pid)
    end, peak_kib, ended = monotonic() + seconds, 0, False
    try:
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        while not ended and monotonic() < end:
            ended = bool(waiting.poll(_LOOK_MILLISECONDS))
            peak_kib = max(peak_kib, _peak_kib(process.pid))
    finally:
        os.close(handle)
    if not ended:
        # capsule ends its workloads at the first signal
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return None, 0
    return process.wait(), peak_kib


def _peak_kib(pid: int) -> int:
    """The most memory that a process has had; its rusage would count that of whoever started it."""
    status = Path(f"/proc/{pid}/status")
    with suppress(OSError, StopIteration):
        lines = status.read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    return 0
