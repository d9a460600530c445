"""Make inputs, send them, and keep those that end by anything but our own errors."""

from __future__ import annotations

import hashlib
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic
from types import FrameType

from capsule.errors import BugError, CapsuleError

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests" / "data" / "fuzz"
# of a processor, which one input's many commands may take where it is slow; by the clock a busy
# machine is slow, and what waits for ever takes none
MOST_SECONDS, MOST_WAITING_SECONDS = 60, 600
MOST_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Door:
    """Where inputs of one kind come in.

    Attributes:
        name: One word.
        make: An input, all of it drawn from what it is given.
        send: Reads an input as the commands do, in an empty folder. It may end by any error of
            ours but a `BugError`; what must hold of an input that is taken, it asserts.
        inputs: How many every run of the tests sends: some ten seconds of them.
    """

    name: str
    make: Callable[[Random], bytes]
    send: Callable[[bytes, Path], None]
    inputs: int = 200


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An input that ended otherwise.

    Attributes:
        door: Where it was sent.
        data: The input.
        where: The kind of error and the line of ours that it came from: one fault, one name.
        trace: Its traceback.
    """

    door: str
    data: bytes
    where: str
    trace: str

    def keep(self, folder: Path) -> Path:
        """Write it where every run of the tests sends it again."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.door}-{hashlib.sha256(self.data).hexdigest()[:12]}"
        path.write_bytes(self.data)
        return path


class _TooLong(Exception):
    """An input that took its reader longer than any may."""


def send(door: Door, data: bytes) -> Fault | None:
    """What is wrong with how the door takes an input, None where nothing is."""
    try:
        with TemporaryDirectory(prefix="capsule-") as folder, _limit():
            door.send(data, Path(folder))
    except BugError as error:
        return _fault(door, data, error)
    except CapsuleError:
        return None
    except Exception as error:
        return _fault(door, data, error)
    return None


def run(door: Door, random: Random, *, enough: Callable[[int], bool]) -> Iterator[Fault | None]:
    """Send one input after the other; yields what became of each.

    Args:
        door: Where to.
        random: Makes the inputs.
        enough: Told how many were sent, says whether to stop.
    """
    count = 0
    while not enough(count):
        yield send(door, door.make(random)[:MOST_BYTES])
        count += 1


def until(seconds: float) -> Callable[[int], bool]:
    """Enough once so much time has gone by."""
    end = monotonic() + seconds
    return lambda _count: monotonic() > end


def kept(doors: Sequence[Door]) -> Iterator[tuple[Door, Path]]:
    """Every input that is kept, with its door."""
    names = {door.name: door for door in doors}
    for path in sorted(KEPT.iterdir()) if KEPT.is_dir() else ():
        yield names[path.name.partition("-")[0]], path


def _fault(door: Door, data: bytes, error: BaseException) -> Fault:
    cause = error.__cause__ or error
    frames = traceback.extract_tb(cause.__traceback__)
    own = [frame for frame in frames if "/capsule/" in frame.filename] or frames
    last = own[-1]
    place = f"{Path(last.filename).name}:{last.name}"
    return Fault(
        door=door.name,
        data=data,
        where=f"{type(cause).__name__} in {place}",
        trace="".join(traceback.format_exception(error)),
    )


@contextmanager
def _limit() -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _TooLong(f"took longer than {MOST_SECONDS} s")

    before = [signal.signal(number, stop) for number in (signal.SIGALRM, signal.SIGPROF)]
    signal.alarm(MOST_WAITING_SECONDS)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for number, handler in zip((signal.SIGALRM, signal.SIGPROF), before, strict=True):
            signal.signal(number, handler)
