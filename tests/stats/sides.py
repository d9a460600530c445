"""Sides as the tests of statistics write them, and what must be known of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from capsule.stats import Runs

T = TypeVar("T")


def runs(values: Iterable[float], resolution: float = 0.0) -> Runs:
    """Runs of these values, each under a seed of its own."""
    return Runs.of(dict(enumerate(values)), resolution=resolution)


def known(value: T | None) -> T:
    """What statistics leave out where they know nothing, and have here."""
    assert value is not None
    return value
