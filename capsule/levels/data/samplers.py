"""Orders in which a training takes samples: functions of seed and epoch, independent of the number
of ranks. Each rank takes its share of every batch.

shuffled    every sample once, in a random order
ordered     every sample once, by its number
bucketed    every sample once, batches of samples of similar lengths, in a random order
weighted    as many draws as samples, each sample in proportion to its weight; a sample may be drawn
            several times or never

If the number of samples is not a multiple of the batch, the last samples of the order are left out.
They differ between epochs, except in `ordered`.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from ..streams import fractions, words
from .generators import npy_header
from .predictions import MOST_VALUES


def shuffle(count: int, seed: int, epoch: int) -> Any:
    """Return a permutation of the numbers below `count`, int64; the same however many ranks share
    it.

    Samples are sorted by a random word each, whole words that tie by their number.

    >>> shuffle(5, seed=1, epoch=0).tolist()
    [4, 2, 3, 1, 0]
    """
    import numpy

    keys = words(f"capsule-order-1\n{seed}\n{epoch}\n", count)
    # several times as fast as a stable sort, and the same where no two are equal
    places = numpy.argsort(keys)
    ordered = keys[places]
    if (ordered[1:] == ordered[:-1]).any():
        places = numpy.argsort(keys, kind="stable")
    return places.astype(numpy.int64, copy=False)


def order(
    sampler: str, count: int, seed: int, epoch: int, *, batch: int, measure: Any = None
) -> Any:
    """Return the numbers of samples in the order in which an epoch takes them, int64 (count,).

    Args:
        sampler: Key of `catalog.training.SAMPLERS`.
        count: Number of samples.
        seed: Seed of the training.
        epoch: From 0.
        batch: Samples of a step, of all ranks together.
        measure: Length or weight of each sample, what `check_measure` gives, where the sampler
            goes by it.

    >>> order("bucketed", 5, seed=1, epoch=0, batch=2, measure=[3, 1, 2, 3, 2]).tolist()
    [1, 4, 2, 3, 0]
    """
    import numpy

    if sampler == "ordered":
        return numpy.arange(count, dtype=numpy.int64)
    if sampler == "weighted":
        ends = numpy.cumsum(measure)
        places = fractions(f"capsule-draws-1\n{seed}\n{epoch}\n", count, "float64") * ends[-1]
        # a product that is rounded up to the end would be behind the last sample
        last = numpy.flatnonzero(measure)[-1]
        return numpy.minimum(numpy.searchsorted(ends, places, side="right"), last)
    shuffled = shuffle(count, seed, epoch)
    if sampler == "shuffled":
        return shuffled
    whole = count // batch * batch
    # those that are left out are any, not the longest
    used, rest = shuffled[:whole], shuffled[whole:]
    by_length = used[numpy.argsort(numpy.asarray(measure)[used], kind="stable")]
    keys = words(f"capsule-batches-1\n{seed}\n{epoch}\n", whole // batch)
    batches = by_length.reshape(-1, batch)[numpy.argsort(keys, kind="stable")]
    return numpy.concatenate([batches.reshape(-1), rest])


def share(order: Any, batch: int, *, rank: int = 0, ranks: int = 1) -> Any:
    """Return the share of one rank in an order, for each step.

    Side by side in the order of the ranks the shares of a step are its batch; their lengths differ
    by at most one.

    Args:
        order: Order of an epoch.
        batch: Samples of a step, of all ranks together.
        rank: From 0.
        ranks: Number of ranks.

    Returns:
        (steps, N): of each whole batch the numbers of the rank's samples.
    """
    steps = len(order) // batch
    first, end = (batch * one // ranks for one in (rank, rank + 1))
    return order[: steps * batch].reshape(steps, batch)[:, first:end]


def check_measure(sampler: str, array: Any, count: int) -> Any:
    """Return lengths or weights of samples, float64 (count,).

    Args:
        sampler: Key of `catalog.training.SAMPLERS`.
        array: What its file holds.
        count: Number of samples.

    Raises:
        ValueError: They are no such numbers; one sentence.
    """
    import numpy

    if array.dtype.kind not in "iuf" or array.shape != (count,):
        raise ValueError(f"is {array.dtype} {array.shape}, expected {count} numbers")
    numbers = array.astype(numpy.float64)
    is_valid = numpy.isfinite(numbers) & (numbers >= 0)
    if not is_valid.all():
        index = int(is_valid.argmin())
        raise ValueError(f"has {numbers[index]:g} for sample {index}, expected finite numbers >= 0")
    if sampler == "weighted" and not 0 < (total := float(numpy.cumsum(numbers)[-1])) < numpy.inf:
        raise ValueError(f"has weights with a sum of {total:g}, expected a finite sum > 0")
    return numbers


def path(benchmark: str, case: str) -> str:
    """Return the path of lengths or weights of a training below its output folder."""
    return f"samplers/{benchmark}/{case}.npy"


def encode(measure: Any) -> bytes | None:
    """Return the file for `path`, which `predictions.decode` reads; None for more than it may
    hold.
    """
    if measure.size > MOST_VALUES:
        return None
    shape = (1, 1, measure.size)
    numbers: bytes = measure.astype("<f8").tobytes()
    return npy_header("<f8", shape) + numbers


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
        """Return the fingerprint of everything added."""
        whole = sha256(b"".join(self._states[name].digest() for name in sorted(self._states)))
        return int.from_bytes(whole.digest()[:6], "big")
