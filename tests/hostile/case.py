"""A case: what is sent, and how capsule must end; what was seen of it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from tests.support.command import User

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
        mib: Its memory at most, its children's included where one took more.
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
        if raw := sorted(set(filter(_steers, self.output))):
            return f"prints {''.join(raw)!a} as it is"
        if self.mib > case.mib:
            return f"took {self.mib:.0f} MiB, more than {case.mib}"
        return None


def _steers(character: str) -> bool:
    """Whether a terminal might obey it; joiners stand in people's names."""
    return not character.isprintable() and character not in "\n\u200c\u200d"


def observe(case: Case) -> Seen:
    """Send it to capsule, in a folder and a home of its own."""
    with TemporaryDirectory(prefix="capsule-") as folder:
        user = User.make(Path(folder))
        argv = user.argv(*case.prepare(user))
        end = Path(folder) / "end.txt"
        with user.talk.open("wb") as talk:
            began = monotonic()
            process = subprocess.Popen(
                [user.python, "-I", "-S", "-c", _MEASURE, end, *argv],
                cwd=user.folder,
                env={**user.environment(), **case.variables},
                stdin=subprocess.DEVNULL,
                stdout=talk,
                stderr=talk,
                start_new_session=True,
            )
            ended = _wait(process, case.seconds)
            seconds = monotonic() - began
        output = user.talk.read_bytes().decode(errors="replace")
        if not ended:
            return Seen(status=None, output=output, mib=0, seconds=seconds)
        status, peak_kib = map(int, end.read_text().split())
        return Seen(status=status, output=output, mib=peak_kib / 1024, seconds=seconds)


# A process begins with the peak memory of the one that starts it, which tests may have filled: a
# small one stands between.
_MEASURE = """
import os, signal, sys
child = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
signal.signal(signal.SIGTERM, lambda number, frame: os.kill(child, number))
_, status, usage = os.wait4(child, 0)
with open(sys.argv[1], "w") as end:
    end.write(f"{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss}")
"""


def _wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether it ends within its time; it has ended in any case."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        # capsule ends its workloads at the first signal
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return False
    return True
