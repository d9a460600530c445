"""Check of a sample of examples, for minibatches too large to compare as a whole.

Those are the first one, the last one and others at even distances, as many as would be held of a
smaller batch; they are held by themselves, where an example's outputs depend on no other one. Where
they do, and of losses and gradients, it is seen that other values change what comes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..catalog import failures
from ..instruments import errors

_APART = 1e-9
"""Largest change of an example's float64 outputs by its neighbours, as a share, for rounding."""

KEPT = 1 / errors.EXACT
"""The ratio of what other values do not change."""

Arrays = tuple[Any, ...]
Compute = Callable[[Mapping[str, Any], int], Arrays]
Judge = Callable[[Arrays, Arrays], float]


def rows(batch: int, count: int) -> list[int]:
    """Return the examples that are compared.

    >>> rows(100, 4)
    [0, 33, 66, 99]
    """
    return [place * (batch - 1) // (count - 1) for place in range(count)]


def take(array: Any, batch: int, examples: Sequence[int]) -> Any:
    """Return some examples of an array whose first axis has so many, each of one row or several.

    Raises:
        ValueError: It has none.
    """
    if not array.ndim or array.shape[0] % batch:
        raise ValueError(f"an array of shape {array.shape} cannot be divided into {batch} examples")
    by_example = array.reshape(batch, array.shape[0] // batch, *array.shape[1:])
    return by_example[list(examples)].reshape(-1, *array.shape[1:])


def judge_change(before: Arrays, after: Arrays) -> float:
    """Return the ratio of results that are the same bits for other values, else 0."""
    return KEPT if errors.same_bits(before, after) else 0.0


def hold(
    inputs: Mapping[str, Any],
    batch: int,
    count: int,
    results: Sequence[Arrays],
    compute: Compute,
    judge: Judge,
) -> float:
    """Return the largest error over its bound of some examples, 0 where they depend on others.

    Args:
        inputs: Inputs of the whole batch.
        batch: Its examples.
        count: How many are held, at least 2.
        results: Outputs of the whole batch, for these inputs.
        compute: The outputs of so many examples in more bits.
        judge: The largest error over its bound of outputs, beside those in more bits.
    """
    chosen = rows(batch, count)
    half = count // 2

    def pick(examples: Sequence[int]) -> dict[str, Any]:
        return {name: take(array, batch, examples) for name, array in inputs.items()}

    try:
        right = compute(pick(chosen), count)
        apart = compute(pick(chosen[-half:]), half)
        lasts = [take(one, count, range(count - half, count)) for one in right]
        taken = [tuple(take(one, batch, chosen) for one in outputs) for outputs in results]
    except (ValueError, RuntimeError) as error:
        if failures.is_sticky(error):
            raise
        # of a network that takes no such batch examples are none by themselves
        return 0.0
    if any(map(_differ, lasts, apart)) or any(map(_is_other_shape, taken[0], right)):
        return 0.0
    return errors.largest([judge(one, right) for one in taken])


def _differ(one: Any, other: Any) -> bool:
    import numpy

    if _is_other_shape(one, other):
        return True
    return float(numpy.linalg.norm(one - other)) > _APART * float(numpy.linalg.norm(other))


def _is_other_shape(one: Any, other: Any) -> bool:
    different: bool = one.shape != other.shape
    return different
