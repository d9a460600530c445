"""Numbers of bytes as people read them."""

from __future__ import annotations


def exact_size(size_bytes: int) -> str:
    """Format a number of bytes to the last byte, and in the largest unit that it fills.

    >>> exact_size(1_500_000), exact_size(400)
    ('1500000 bytes (1.4 MiB)', '400 bytes')
    """
    exact, rounded = f"{size_bytes} bytes", size(size_bytes)
    return exact if rounded == exact else f"{exact} ({rounded})"


def size(size_bytes: int) -> str:
    """Format a number of bytes in the largest unit that it fills.

    >>> size(1_500_000), size(10 << 30)
    ('1.4 MiB', '10.0 GiB')
    >>> size(1_023), size(1_024)
    ('1023 bytes', '1.0 KiB')
    """
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size_bytes >= 1 << power:
            return f"{size_bytes / (1 << power):.1f} {unit}"
    return f"{size_bytes} bytes"
