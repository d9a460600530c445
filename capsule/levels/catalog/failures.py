"""Kinds of failures of a trial: a lack of memory, an error that the device does not recover from.

CUDA calls an error sticky if every later call of the process fails with it, whatever that calls:
illegal addresses, device-side assertions, failed launches. Only another process helps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_ALLOCATION_WORDS = (
    *("can't allocate memory", "not enough memory", "out of memory"),
    *("Failed to allocate memory", "OOM when allocating"),  # ONNX Runtime, TensorFlow
)

# what a library of products or convolutions refuses, it may do for another call
_RUNTIME_ERROR = re.compile(r"\b(CUDA|HIP) error: (?!\w+_STATUS_)")


def describe(error: BaseException) -> str:
    """Return the kind of an exception and its words."""
    return f"{type(error).__name__}: {error}"


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception says that memory of the host or of the device ran out."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or any(phrase in describe(error) for phrase in _ALLOCATION_WORDS)
    )


def is_sticky(error: BaseException) -> bool:
    """Return whether an exception, or its cause, is an error of the device's runtime.

    Each such error counts as sticky, except a lack of memory. PyTorch has a class for these errors
    from 2.8 on; earlier versions are recognized by their words.
    """
    return any(_is_of_device(one) and not is_out_of_memory(one) for one in _trace(error))


def _is_of_device(error: BaseException) -> bool:
    if any(kind.__name__ == "AcceleratorError" for kind in type(error).__mro__):
        return True
    return isinstance(error, RuntimeError) and bool(_RUNTIME_ERROR.search(str(error)))


def _trace(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that it was raised for, or while they were handled."""
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        following = following.__cause__ or following.__context__
