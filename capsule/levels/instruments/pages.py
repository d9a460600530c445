"""Pages of files in the system's cache: to be counted, and to be given back."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path


def drop(paths: Iterable[Path]) -> None:
    """Put what was written on the storage, and give the pages of these files back.

    Whether the system did so, `resident_share` tells; names and places of files stay in memory.

    Raises:
        OSError: A file cannot be read, or the system has no such call.
    """
    if not hasattr(os, "posix_fadvise"):
        raise OSError(
            "this system cannot drop cached pages of files (posix_fadvise): remove `cold`"
        )
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def resident_share(paths: Iterable[Path]) -> float:
    """Return the share of the pages of some files that lie in memory, from 0 to 1, as mincore(2)
    counts.

    Raises:
        OSError: A file cannot be read, or the system does not say.
    """
    resident = whole = 0
    for path in paths:
        size = path.stat().st_size
        if size:
            states = _residency(path, size)
            resident += sum(state & 1 for state in states)
            whole += len(states)
    return resident / whole if whole else 0.0


def _residency(path: Path, size: int) -> bytearray:
    """Return a byte for each page, whose lowest bit says whether it is in memory."""
    import numpy

    states = bytearray(-(-size // mmap.PAGESIZE))
    vector = (ctypes.c_ubyte * len(states)).from_buffer(states)
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as mapped:
        try:
            count_pages = ctypes.CDLL(None, use_errno=True).mincore
        except (AttributeError, OSError):
            raise OSError("this system cannot tell which pages are in memory (mincore)") from None
        address = numpy.frombuffer(mapped, numpy.uint8).ctypes.data
        if count_pages(ctypes.c_void_p(address), ctypes.c_size_t(size), vector):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    return states
