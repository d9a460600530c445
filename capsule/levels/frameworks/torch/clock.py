"""Clock of a CUDA device: events in the stream that torch works on."""

from __future__ import annotations

import torch

_LARGER = 4
"""Size of the buffer that empties the L2 cache, in sizes of that cache."""
_L2_BYTES = 2**26
"""Size taken for the L2 cache where torch does not know it: no less than an H100 or H200 has."""
_CYCLES_PER_SECOND = 2e9
"""Rate taken for the cycles of a device: most count more slowly, and are held longer."""


class CudaClock:
    """See `base.DeviceClock`.

    Work that a call puts into other streams counts only if the stream of torch waits for it.

    Attributes:
        kept_bytes: Bytes of the device that the buffer takes.
    """

    def __init__(self, device: torch.device) -> None:
        self.kept_bytes = 0
        self._device = device
        self._buffer: torch.Tensor | None = None

    def mark(self) -> torch.cuda.Event:
        """Record an event in the current stream."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def has_passed(self, mark: torch.cuda.Event) -> bool:
        """`Event.query`."""
        passed: bool = mark.query()
        return passed

    def seconds(self, begin: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """Return the elapsed time of two events, which has steps of about half a microsecond."""
        end.synchronize()
        milliseconds: float = begin.elapsed_time(end)
        return milliseconds / 1e3

    def hold(self, seconds: float) -> None:
        """Launch a kernel that counts cycles."""
        torch.cuda._sleep(round(seconds * _CYCLES_PER_SECOND))

    def flush(self) -> None:
        """Write a buffer that is several times as large as the L2 cache."""
        if self._buffer is None:
            size = self.reserve()
            self._buffer = torch.empty(size, dtype=torch.uint8, device=self._device)
            self.kept_bytes = size
        self._buffer.zero_()

    def reserve(self) -> int:
        """Return the size of the buffer; 0 once it is there."""
        if self._buffer is not None:
            return 0
        properties = torch.cuda.get_device_properties(self._device)
        # an old torch has no such name, and some devices say 0
        return _LARGER * (getattr(properties, "L2_cache_size", 0) or _L2_BYTES)
