"""Numbers of bytes as people read them."""

from __future__ import annotations


def size(size_bytes: int) -> str:
    """Format a number of bytes in the largest unit that it fills.

    >>> size(1_500_000), size(10 << 30)
    ('1.4 MiB', '10.0 GiB')
    """
    for power, unit in ((30, "GiB"), (20, "MiB")):
        if size_bytes >= 1 << power:
            return f"{size_bytes / (1 << power):.1f} {unit}"
    return f"{size_bytes} bytes"
