"""With how many examples a property is tried: few in every run of the tests, many in a long one."""

from __future__ import annotations

import os
from collections.abc import Iterable

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
