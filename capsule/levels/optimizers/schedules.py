"""Learning rates: what each step of a training takes, as closed formulas."""

from __future__ import annotations

import math
from typing import Callable

from ..catalog.training import Numbers


def rate(name: str, numbers: Numbers, peak: float, step: int, per_epoch: int, epochs: int) -> float:
    """The learning rate of one step.

    In the first `warmup_epochs` it rises linearly, so that their last step has `peak`; what follows
    counts epochs from the start of training, the warm-up included.

    Args:
        name: Key of `catalog.training.SCHEDULES`.
        numbers: All that it takes.
        peak: The optimizer's `lr`.
        step: From 0.
        per_epoch: Steps of an epoch.
        epochs: Of the whole training.

    >>> [round(rate("cosine", {"warmup_epochs": 1, "end": 0.0}, 1.0, n, 2, 3), 3) for n in range(6)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146]
    """
    warm = math.ceil(numbers["warmup_epochs"] * per_epoch)
    if step < warm:
        return peak * (step + 1) / warm
    whole = epochs * per_epoch
    passed = (step - warm) / max(whole - warm, 1)
    return _SCHEDULES[name](numbers, peak, passed, step // per_epoch)


def _constant(numbers: Numbers, peak: float, passed: float, epoch: int) -> float:  # noqa: ARG001
    return peak


def _step(numbers: Numbers, peak: float, passed: float, epoch: int) -> float:  # noqa: ARG001
    return float(peak * numbers["factor"] ** (epoch // numbers["every"]))


def _cosine(numbers: Numbers, peak: float, passed: float, epoch: int) -> float:  # noqa: ARG001
    end = numbers["end"]
    return end + (peak - end) * (1 + math.cos(math.pi * passed)) / 2


def _polynomial(numbers: Numbers, peak: float, passed: float, epoch: int) -> float:  # noqa: ARG001
    end = numbers["end"]
    return float(end + (peak - end) * (1 - passed) ** numbers["power"])


_SCHEDULES: dict[str, Callable[[Numbers, float, float, int], float]] = {
    "constant": _constant,
    "step": _step,
    "cosine": _cosine,
    "polynomial": _polynomial,
}
