"""A case: what is sent, and how capsule must end; what was seen of it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from time import monotonic
from typing import IO

from tests.support import forking
from tests.support.command import User
from tests.support.patience import PATIENCE_SECONDS

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
        reads_only: It is ended by a status of its own where it does more than read.
        engine: An engine that it needs, None for none.
        long: Only `tests/run --long` has it: beside a case of the same kind.
    """

    name: str
    prepare: Prepare
    status: int
    says: str
    says_not: str | None = None
    mib: int = 512
    seconds: float = 60.0
    variables: Mapping[str, str] = field(default_factory=dict)
    reads_only: bool = False
    engine: str | None = None
    long: bool = False


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
        arguments = case.prepare(user)
        environment = {**user.environment(), **case.variables}
        with user.talk.open("wb") as talk, forking.take(environment) as server:
            began = monotonic()
            if server is None:
                ended = _start(case, user.argv(*arguments), environment, user.folder, talk)
            else:
                ended = _fork(case, arguments, environment, user.folder, talk, server)
            seconds = monotonic() - began
        output = user.talk.read_bytes().decode(errors="replace")
        if ended is None:
            return Seen(status=None, output=output, mib=0, seconds=seconds)
        return Seen(status=ended.status, output=output, mib=ended.peak_kib / 1024, seconds=seconds)


_HOOK = Path(__file__).parent / "hook" / "sitecustomize.py"


def _fork(
    case: Case,
    arguments: Sequence[str | Path],
    environment: Mapping[str, str],
    folder: Path,
    talk: IO[bytes],
    server: forking.Server,
) -> forking.Ended | None:
    pid = server.start(
        arguments,
        folder=folder,
        environment=environment,
        out=talk.fileno(),
        err=talk.fileno(),
        first=_HOOK if case.reads_only else None,
    )
    if ended := server.wait(case.seconds):
        return ended
    # capsule ends its workloads at the first signal
    os.kill(pid, signal.SIGTERM)
    if server.wait(30) is None:
        os.kill(pid, signal.SIGKILL)
        server.wait(PATIENCE_SECONDS)
    return None


def _start(
    case: Case, argv: Sequence[str], environment: Mapping[str, str], folder: Path, talk: IO[bytes]
) -> forking.Ended | None:
    hooked = {"PYTHONPATH": str(_HOOK.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    with NamedTemporaryFile() as end:
        process = subprocess.Popen(
            [argv[0], "-I", "-S", "-c", _MEASURE, end.name, *argv],
            cwd=folder,
            env={**environment, **hooked} if case.reads_only else environment,
            stdin=subprocess.DEVNULL,
            stdout=talk,
            stderr=talk,
            start_new_session=True,
        )
        if not _wait(process, case.seconds):
            return None
        status, peak_kib = map(int, end.read().split())
        return forking.Ended(status, peak_kib)


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
