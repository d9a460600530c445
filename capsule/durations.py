"""Durations for people: each number with its unit."""

from __future__ import annotations

_ONE_DECIMAL_BELOW_SECONDS = 9.95


def duration(seconds: float) -> str:
    """Return a duration in seconds, in minutes and seconds, or in hours and minutes.

    >>> duration(0.4419), duration(3.24), duration(42.4), duration(125), duration(3840)
    ('0.44 s', '3.2 s', '42 s', '2 min 5 s', '1 h 4 min')
    """
    if seconds < _ONE_DECIMAL_BELOW_SECONDS:
        return f"{round(seconds, 2):.2g} s"
    whole = round(seconds)
    if whole < 3600:
        (large, unit), (small, below) = (whole // 60, "min"), (whole % 60, "s")
    else:
        minutes = round(whole / 60)
        (large, unit), (small, below) = (minutes // 60, "h"), (minutes % 60, "min")
    parts = ((large, unit), (small, below))
    return " ".join(f"{number} {name}" for number, name in parts if number)
