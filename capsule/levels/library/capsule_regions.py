"""Report numbers of a script, and time its regions. One file, for Python 3.9 or later.

    from capsule_regions import region, report

    for epoch in range(10):
        with region("epoch"):
            loss = train()
        report("loss", loss, step=epoch)

Under `capsule run`, each number becomes a line of the file CAPSULE_RESULTS, and each call of a
region a sample of the metric `NAME_time`, in seconds. Without CAPSULE_RESULTS, the script runs as
usual and nothing is recorded. A copy of this file beside a script works without capsule.

When `report` returns, the kernel has the number. Times stay in memory. They are written by `flush`,
at the interpreter's end, and at SIGTERM unless the script handles it. A process that is killed by
SIGKILL, or that leaves by `os._exit` like a forked worker, loses the times since the last flush.
The first 100 000 calls of each region are recorded; stderr tells how many were not.

Several threads may report, and may time regions of one name. A `region` object belongs to the
thread that made it; a decorated function may be called from any thread. A forked process measures
and reports on its own, without the times of its parent.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import json
import math
import os
import re
import signal
import sys
import threading
from array import array
from time import perf_counter_ns
from typing import Any, Callable, SupportsFloat, TypeVar

__all__ = ["flush", "region", "report"]

MOST_CALLS = 100_000
_MOST_PENDING = 1000  # pairs of events that wait for their device
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")

_Function = TypeVar("_Function", bound=Callable[..., Any])


def report(metric: str, value: SupportsFloat, step: SupportsFloat | None = None) -> None:
    """Append one number to the results of this run.

    Args:
        metric: Its name in the manifest.
        value: Whatever `float` takes, also an array or tensor of one number. NaN and infinities
            are reported as such, and fail the trial.
        step: Where on its way through the run it was taken, an increasing number; all values of a
            metric have one, which makes them a curve, or none.

    Raises:
        ValueError: The metric's name is none, or the step is not finite.
        OSError: The file cannot be written.
    """
    line = {"metric": _check_name(metric), "value": float(value)}
    if step is not None:
        line["step"] = _to_number(step)
    _results.write(json.dumps(line) + "\n")


class region:  # noqa: N801 - reads as a word of the language
    """Time a block with `with region("forward"):`, or a function with `@region("forward")`.

    Regions may be nested, also in themselves. A call that ends by an exception counts, too.

    Args:
        name: `epoch`, `batch`, `forward`, `backward`, `communication`, `io`, or any other name.
        cuda: True to measure the work launched on the current CUDA stream, between two events.
            If torch is not imported or has no device, the process's clock measures instead.

    Raises:
        ValueError: `NAME_time` is not a valid metric name.
    """

    __slots__ = ("_cuda", "_name", "_starts", "_times")

    def __init__(self, name: str, *, cuda: bool = False) -> None:
        self._name = name
        self._cuda = cuda
        self._starts: list[Any] = []
        self._times = _times.get(name) or _find_times(name)

    def __enter__(self) -> region:
        self._starts.append(self._times.record() if self._cuda else perf_counter_ns())
        return self

    def __exit__(self, *_: object) -> None:
        end_ns = perf_counter_ns()
        start = self._starts.pop()
        if self._cuda:
            self._times.measure(start, end_ns)
        else:
            self._times.add(end_ns - start)

    def __call__(self, function: _Function) -> _Function:
        """Return a function like this one, each call of which is timed.

        Raises:
            TypeError: It is a generator or coroutine, whose call does not run its body.
        """
        if any(is_lazy(function) for is_lazy in _LAZY):
            raise TypeError(
                f"{function.__qualname__} is a generator or coroutine, which runs after its call"
                f" returns: put `with region({self._name!r}):` inside it"
            )
        name, cuda = self._name, self._cuda

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            with region(name, cuda=cuda):
                return function(*arguments, **options)

        return call  # type: ignore[return-value]


def flush() -> None:
    """Write the times of all finished calls, waiting for devices with pending events.

    Raises:
        OSError: The results file cannot be written.
    """
    with _end:
        for times in list(_times.values()):
            times.write()


class _Times:
    """The calls of one region, in the order of their ends."""

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._ns = array("q")
        self._written = 0
        self._left_out = 0
        self._pending: list[tuple[Any, Any]] = []

    def add(self, ns: int) -> None:
        """Keep one duration in nanoseconds; other threads may do the same."""
        if len(self._ns) < MOST_CALLS:
            self._ns.append(ns)
        else:
            self._left_out += 1

    def record(self) -> tuple[int, Any]:
        """Begin on the device: the time, and an event, None where there is no device."""
        event = _devices.new_event()
        if event is not None:
            event.record()
        return perf_counter_ns(), event

    def measure(self, start: tuple[int, Any], end_ns: int) -> None:
        """End on the device what `record` began."""
        start_ns, event = start
        if event is None:
            self.add(end_ns - start_ns)
            return
        end = _devices.new_event()
        end.record()
        self._pending.append((event, end))
        if len(self._pending) >= _MOST_PENDING:
            with _end:
                self._settle()

    def write(self) -> None:
        """Append the durations that were not written yet."""
        self._settle()
        durations = self._ns[self._written :]
        name = json.dumps(self._metric)
        lines = [f'{{"metric": {name}, "value": {ns / 1e9!r}}}\n' for ns in durations]
        if lines:
            _results.write("".join(lines))
        self._written += len(lines)
        if self._left_out:
            _say(f"{self._metric}: left out {self._left_out} calls after the first {MOST_CALLS}")
            self._left_out = 0

    def forget(self) -> None:
        """Leave what was measured so far to the process that this one was forked from."""
        self._written, self._left_out, self._pending = len(self._ns), 0, []

    def _settle(self) -> None:
        """Wait for the events, and read them: milliseconds."""
        pending, self._pending = self._pending, []
        for begin, end in pending:
            end.synchronize()
            self.add(round(begin.elapsed_time(end) * 1e6))


class _Results:
    """The file of results, opened at the first line."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._is_open = False

    def write(self, lines: str) -> None:
        """Append lines: one write is one piece in the file, whoever else appends."""
        if not self._is_open:
            self._open()
        rest = lines.encode()
        while rest and self._file is not None:
            rest = rest[os.write(self._file, rest) :]

    def _open(self) -> None:
        path = os.environ.get("CAPSULE_RESULTS")
        if path:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        else:
            _say("CAPSULE_RESULTS is not set, so reported values are discarded")
        self._is_open = True


class _Devices:
    """Makes events, once it is known that there is a device."""

    def __init__(self) -> None:
        self._make: Callable[[], Any] | None = None

    def new_event(self) -> Any:
        """Return an event that measures time, None where torch or a device is missing."""
        if self._make is None:
            torch = sys.modules.get("torch")
            if torch is None or not torch.cuda.is_available():
                return None
            self._make = functools.partial(torch.cuda.Event, enable_timing=True)
        return self._make()


class _End:
    """Lets one thread write at a time, and a SIGTERM wait until what it cut into is written."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._is_writing = False
        self._is_due = False
        self._is_watched = False

    def __enter__(self) -> None:
        self._lock.acquire()
        self._is_writing = True

    def __exit__(self, *_: object) -> None:
        self._is_writing = False
        self._lock.release()
        if self._is_due:
            self._die()

    def watch(self) -> None:
        """Have times written at SIGTERM too, of which the interpreter itself tells nobody."""
        if self._is_watched or threading.current_thread() is not threading.main_thread():
            return
        self._is_watched = True
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._terminate)

    def start_anew(self) -> None:
        """Reset the state in a forked process, whose lock another thread may have held."""
        self._lock, self._is_writing, self._is_due = threading.RLock(), False, False

    def _terminate(self, *_: object) -> None:
        # always in the main thread, perhaps in the midst of its own writing, which then goes on
        with self._lock:
            self._is_due = self._is_writing
        if not self._is_due:
            try:
                flush()
            finally:
                self._die()

    def _die(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


def _find_times(name: str) -> _Times:
    metric = _check_name(f"{name}_time")
    _end.watch()
    # of two threads that come here for one name, both get what the first one put
    return _times.setdefault(name, _Times(metric))


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a metric name: use letters, digits and . _ + - only,"
            " starting with a letter or digit, at most 64 characters"
        )
    return name


def _to_number(step: SupportsFloat) -> float:
    """Return a step as JSON has it, which arrays and tensors are not."""
    number = float(step)
    if not math.isfinite(number):
        raise ValueError(f"step is {number}, expected a finite number")
    return int(number) if number.is_integer() else number


def _start_anew() -> None:
    _end.start_anew()
    for times in _times.values():
        times.forget()


def _flush_last() -> None:
    try:
        flush()
    except OSError as error:
        _say(f"cannot write the times of regions: {error}")


def _say(sentence: str) -> None:
    sys.stderr.write(f"capsule_regions: {sentence}\n")


_LAZY = (
    inspect.isgeneratorfunction,
    inspect.iscoroutinefunction,
    inspect.isasyncgenfunction,
)
_times: dict[str, _Times] = {}
_results = _Results()
_devices = _Devices()
_end = _End()
atexit.register(_flush_last)
os.register_at_fork(after_in_child=_start_anew)
