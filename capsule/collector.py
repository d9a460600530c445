"""The memory of this process, while millions of values are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_collector() -> Iterator[None]:
    """Pause the garbage collector while building many long-lived objects; pauses may nest."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def return_memory() -> None:
    """Give the system what was freed of a large document, where the C library can (glibc).

    It keeps the pieces, and Python takes smaller ones from elsewhere.
    """
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
