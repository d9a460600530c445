"""In which order samples are trained on: a function of seed and epoch alone."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from ..streams import words


def shuffle(count: int, seed: int, epoch: int) -> Any:
    """A permutation of the numbers below `count`, int64; the same however many ranks share it.

    Samples are sorted by a random word each, whole words that tie by their number.

    >>> shuffle(5, seed=1, epoch=0).tolist()
    [4, 2, 3, 1, 0]
    """
    import numpy

    keys = words(f"capsule-order-1\n{seed}\n{epoch}\n", count)
    return numpy.argsort(keys, kind="stable").astype(numpy.int64)


class Fingerprint:
    """48 bits that tell which arrays passed, and in which order; a sample holds so many exactly.

    Those of the SHA-256 over the SHA-256 of each name's elements, little-endian in C order, in the
    order of the names.

    >>> fingerprint = Fingerprint()
    >>> fingerprint.add("order", shuffle(5, seed=1, epoch=0))
    >>> fingerprint.value()
    41617317193561
    """

    def __init__(self) -> None:
        self._states: dict[str, Any] = {}

    def add(self, name: str, array: Any) -> None:
        """Count an array in behind those of this name that were counted before."""
        plain = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        self._states.setdefault(name, sha256()).update(plain.data)

    def value(self) -> int:
        """Of all that was added."""
        whole = sha256(b"".join(self._states[name].digest() for name in sorted(self._states)))
        return int.from_bytes(whole.digest()[:6], "big")
