"""How long something took, as people read it."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Minutes and seconds, with hours where there are some.

    >>> duration(42.4), duration(3725)
    ('0:42', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
