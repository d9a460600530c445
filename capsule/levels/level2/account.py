"""Cost of a training: clocks with and without evaluation, and bytes of data read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..report import Report

WATCHED = 50
"""Steps from one look at a loss to the next: a look waits for the device."""

_TICK = 1e-9
"""Seconds that a wait has at least taken."""


@dataclass(frozen=True)
class Epoch:
    """One pass over the training data.

    Attributes:
        loss: Mean of its steps.
        first_loss: Loss of its first step.
        rate: Mean of the learning rates of its steps.
        steps: Number of steps.
        samples: How many were taken.
        seconds: From its begin until the last step was done.
        waited: Seconds of these that went by until the data of steps was there.
        copied: Seconds of copies of that data to a device that computed meanwhile; None where
            `waited` has them.
        size: Bytes of the data that its steps were given.
        taken: Numbers of the samples of each step that this process took, in their order.
    """

    loss: float
    first_loss: float
    rate: float
    steps: int
    samples: int
    seconds: float
    waited: float
    copied: float | None
    size: int
    taken: Sequence[Any]


class Account:
    """Adds up what epochs and evaluations take, and reports it."""

    def __init__(self, report: Report) -> None:
        """Create an account with nothing spent."""
        self._report = report
        self._trained = 0.0
        self._total = 0.0

    def add(self, epoch: Epoch, evaluated: float) -> None:
        """Report an epoch, and the seconds of the evaluation that came after it."""
        report, waited = self._report, max(epoch.waited, _TICK)
        self._trained += epoch.seconds
        self._total += epoch.seconds
        self._total += evaluated
        report.samples("epoch_time", [epoch.seconds])
        report.samples("training_throughput", [epoch.samples / epoch.seconds])
        report.samples("data_share", [epoch.waited / epoch.seconds])
        report.samples("batch_latency", [waited / epoch.steps])
        report.samples("data_bytes_per_second", [epoch.size / waited])
        if epoch.copied is not None:
            report.samples("copy_time", [max(epoch.copied, _TICK) / epoch.steps])
        report.samples("evaluation_time", [evaluated])

    def reach(self) -> None:
        """Report how long it took to the target, which has just been met."""
        self._report.samples("time_to_target", [self._trained])
        self._report.samples("total_time_to_target", [self._total])

    def conclude(self) -> None:
        """Report how long all of it took."""
        self._report.samples("train_time", [self._trained])
        self._report.samples("total_time", [self._total])
