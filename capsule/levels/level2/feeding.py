"""The way of minibatches from the host to the steps of an epoch, with its clocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import perf_counter
from typing import Any

from ..frameworks.base import NativeTensor, Sent, Transfer
from .prepared import Prepared

Made = tuple[Mapping[str, Any], int]
"""A minibatch as it is handed on, and its bytes as the data holds them."""


class Feed:
    """Minibatches that are placed when they are due.

    Attributes:
        waited: Seconds until the minibatches of steps were there.
        size: Bytes of these minibatches.
    """

    def __init__(self, trial: Prepared) -> None:
        """Create a feed of no minibatch; `open` gives it some."""
        self._trial = trial
        self._made: Iterator[Made] = iter(())
        self.waited = 0.0
        self.size = 0

    def make(self, arrays: Mapping[str, Any]) -> Made:
        """Return a minibatch as `open` takes it; several threads may call it at once."""
        return arrays, _count_bytes(arrays)

    def open(self, made: Iterator[Made]) -> None:
        """Hand out these minibatches, one for each `take`."""
        self._made = made

    def take(self) -> dict[str, NativeTensor]:
        """Return the next minibatch for a step that is called from now on."""
        began = perf_counter()
        arrays, size = next(self._made)
        inputs = self._trial.place(arrays)
        self.waited += perf_counter() - began
        self.size += size
        return inputs

    def run_ahead(self) -> None:
        """Prepare the next minibatch while a device computes the last step."""

    def measure_copies(self) -> float | None:
        """Return the seconds of all copies to a device that is idle; None where `waited` has
        them.
        """
        return None


class FeedAhead(Feed):
    """Minibatches that are copied to a device one step ahead, while it computes.

    `waited` leaves the copies out. Nothing waits for the device.
    """

    def __init__(self, trial: Prepared, transfer: Transfer) -> None:
        """See `Feed`."""
        super().__init__(trial)
        self._transfer = transfer
        self._sent: Sent | None = None

    def make(self, arrays: Mapping[str, Any]) -> Made:
        """Pin the arrays, so that their copies leave the host alone."""
        dtype = self._trial.dtype
        pinned = {name: self._transfer.pin(array, dtype) for name, array in arrays.items()}
        return pinned, _count_bytes(arrays)

    def take(self) -> dict[str, NativeTensor]:
        """Return the minibatch that is under way; before the first step, send it now."""
        if self._sent is None:
            self.run_ahead()
        inputs = self._transfer.receive(self._sent)
        self._sent = None
        return inputs

    def run_ahead(self) -> None:
        """Send the next minibatch, if there is one."""
        began = perf_counter()
        made = next(self._made, None)
        self.waited += perf_counter() - began
        if made is not None:
            pinned, size = made
            self.size += size
            self._sent = self._transfer.send(pinned)

    def measure_copies(self) -> float | None:
        """Return the sum over all minibatches."""
        return self._transfer.measure_copies()


def start(trial: Prepared) -> Feed:
    """Return the feed that suits the trial's framework and device."""
    transfer = trial.framework.transfer
    return Feed(trial) if transfer is None else FeedAhead(trial, transfer())


def _count_bytes(arrays: Mapping[str, Any]) -> int:
    return sum(array.nbytes for array in arrays.values())
