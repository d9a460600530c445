"""How much is tried of properties and simulations: little in every run, much in a long one."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet
from hypothesis import HealthCheck, settings

LONG = "long"


def scaled(count: int) -> int:
    """So many of something in a long run; fewer where somebody only tries whether it works."""
    return max(1, round(count * float(os.environ.get("CAPSULE_LONG_SCALE", "1"))))


def examples(count: int, *, times: int = 20, allowed: Iterable[HealthCheck] = ()) -> settings:
    """A property's settings: so many examples, `times` as many in a long run.

    Args:
        count: In every run of the tests.
        times: More for what reads a stranger's bytes.
        allowed: What Hypothesis would complain of, and is meant.
    """
    profile = settings.get_profile(settings.get_current_profile_name())
    if settings.get_current_profile_name() == LONG:
        count = scaled(count * times)
    checks = {*profile.suppress_health_check, *allowed}
    return settings(profile, max_examples=count, suppress_health_check=checks)


def pin_first(values: Iterable[object]) -> list[ParameterSet]:
    """Parameters of a simulation: the first in every run of the tests, the others in a long one."""
    tuples = [value if isinstance(value, tuple) else (value,) for value in values]
    return [
        pytest.param(*value, marks=[pytest.mark.long] if number else [])
        for number, value in enumerate(tuples)
    ]
