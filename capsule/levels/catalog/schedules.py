"""Learning rates: what each step of a training takes, as closed formulas."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from .training import Numbers


@dataclass(frozen=True)
class Schedule:
    """Learning rate over a whole training.

    Attributes:
        name: Key of `training.SCHEDULES`.
        numbers: All that it takes.
        milestones: Epochs after which `multistep` multiplies the rate by its factor.
        peak: The optimizer's `lr`.
        epochs: Number of epochs of the training.
    """

    name: str
    numbers: Numbers
    milestones: Sequence[int]
    peak: float
    epochs: int

    def rate(self, step: int, per_epoch: int) -> float:
        """Return the learning rate of one step.

        In the first `warmup_epochs` it rises linearly, so that their last step has `peak`; what
        follows counts epochs from the start of training, the warm-up included.

        Args:
            step: Number of the optimizer's step, from 0.
            per_epoch: Steps of an epoch.

        >>> schedule = Schedule("cosine", {"warmup_epochs": 1, "end": 0.0}, (), 1.0, 3)
        >>> [round(schedule.rate(step, 2), 3) for step in range(6)]
        [0.5, 1.0, 1.0, 0.854, 0.5, 0.146]
        """
        warm = math.ceil(self.numbers["warmup_epochs"] * per_epoch)
        if step < warm:
            return self.peak * (step + 1) / warm
        passed = (step - warm) / max(self.epochs * per_epoch - warm, 1)
        return self._after_warmup(passed, step // per_epoch)

    def mean(self, epoch: int, per_epoch: int) -> float:
        """Return the mean of the rates of an epoch's steps.

        Args:
            epoch: From 1.
            per_epoch: Steps of an epoch.

        >>> Schedule("multistep", {"warmup_epochs": 0, "factor": 0.5}, (1,), 0.1, 2).mean(2, 10)
        0.05
        """
        steps = range((epoch - 1) * per_epoch, epoch * per_epoch)
        return math.fsum(self.rate(step, per_epoch) for step in steps) / per_epoch

    def _after_warmup(self, passed: float, epoch: int) -> float:
        numbers, peak = self.numbers, self.peak
        if self.name == "constant":
            return peak
        if self.name == "step":
            return float(peak * numbers["factor"] ** (epoch // numbers["every"]))
        if self.name == "multistep":
            return float(peak * numbers["factor"] ** bisect_right(self.milestones, epoch))
        end = numbers["end"]
        if self.name == "cosine":
            return end + (peak - end) * (1 + math.cos(math.pi * passed)) / 2
        return float(end + (peak - end) * (1 - passed) ** numbers["power"])
