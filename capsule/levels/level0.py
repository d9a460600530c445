"""One Level 0 trial: make the inputs, time the native operation, hold its result to a reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import operators, timing
from .frameworks import Framework


@dataclass(frozen=True)
class Series:
    """Every value of one metric, of which the first `warmup` are warm-up."""

    metric: str
    warmup: int
    values: tuple[float, ...]


def measure(trial: Mapping[str, Any], framework: Framework, seed: int) -> list[Series]:
    """Run one trial and return its samples.

    The result that is checked is that of the last timed call.

    Args:
        trial: An entry of a job's `trials`.
        framework: Where it runs.
        seed: The trial's seed.

    Returns:
        `forward_time` in seconds with one value per call, warm-up first, and the error metrics with
        one value each.
    """
    operator = operators.load(trial["operator"])
    dtype: str = trial["dtype"]
    inputs = operator.inputs(trial["parameters"], dtype, seed)
    tensors = tuple(framework.from_numpy(each) for each in inputs)
    call, arguments = operator.native(framework.name, tensors)
    warmup: int = trial["warmup"]
    nanoseconds, result = timing.measure(
        call, arguments, warmup + trial["repetitions"], framework.synchronize
    )
    errors = _errors(operator, inputs, framework.to_numpy(result), dtype)
    seconds = tuple(each / 1e9 for each in nanoseconds)
    return [
        Series("forward_time", warmup, seconds),
        *(Series(metric, 0, (value,)) for metric, value in errors.items()),
    ]


def _errors(
    operator: operators.Operator, inputs: tuple[Any, ...], result: Any, dtype: str
) -> dict[str, float]:
    import numpy

    wider = numpy.dtype(operators.WIDER[dtype])
    reference = operator.reference(*(each.astype(wider) for each in inputs))
    if result.shape != reference.shape or result.dtype != dtype:
        raise ValueError(
            f"{operator.name} returned {result.dtype} {result.shape},"
            f" expected {dtype} {reference.shape}"
        )
    difference = numpy.abs(result.astype(wider) - reference).astype(numpy.float64).ravel()
    doubles = [each.astype(numpy.float64) for each in inputs]
    # the reference has an error of its own, of the same form
    bound = sum(
        operator.bound(reference.astype(numpy.float64), roundoff, *doubles)
        for roundoff in (operators.ROUNDOFF[dtype], float(numpy.finfo(wider).eps) / 2)
    )
    l2 = float(numpy.linalg.norm(difference))
    return {
        "l1_error": float(difference.sum()),
        "l2_error": l2,
        "max_error": float(difference.max()),
        "l2_error_ratio": l2 / bound,
    }
