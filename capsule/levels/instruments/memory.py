"""Watch the peak of memory: of the device where it keeps count, else of this process."""

from __future__ import annotations

import ctypes
import gc
import resource
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from ..frameworks import Framework

_KIB = 1024
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # proc(5): the peak resident set becomes the present one


class Watch(Protocol):
    """Recorder of a peak."""

    def reset_peak(self) -> None:
        """Start to watch the peak."""

    def peak(self) -> int:
        """Return the most bytes since `reset_peak`."""


class Resident:
    """The growth of this process's peak resident set, in bytes: pages of host memory.

    Counted are pages that a call touches beyond those that were there before, so inputs and
    parameters, which lie there already, are not in it, unlike in the count of a CUDA device.
    Garbage is collected first, and memory that the allocator holds free is given back to the system
    where that is glibc's; an arena that a framework keeps is not, and hides what fits into it. The
    kernel counts pages in batches per CPU, so some hundred KiB may be missing or too many.

    Where the kernel does not let a process reset its peak, it is the growth of the highest peak
    since the process started (`ru_maxrss`): too low, down to 0, if an earlier peak was higher.
    """

    def __init__(self) -> None:
        self._resets = False
        self._before = 0

    def reset_peak(self) -> None:
        """Start to watch: what is resident now counts as nothing."""
        gc.collect()
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        try:
            _CLEAR_REFS.write_text(_RESET_PEAK, encoding="ascii")
            self._before, self._resets = _high_water(), True
        except (OSError, LookupError):
            self._before, self._resets = _highest(), False

    def peak(self) -> int:
        """Return the growth of the peak since `reset_peak`, in bytes."""
        now = _high_water() if self._resets else _highest()
        return max(0, now - self._before)


def watch(framework: Framework) -> Watch:
    """Return a recorder for the memory of a framework's tensors."""
    return framework.memory or Resident()


def _high_water() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["VmHWM"].split()[0]) * _KIB


def _highest() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB
