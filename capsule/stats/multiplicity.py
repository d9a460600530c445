"""Several claims at once: Holm's procedure."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p values, in the order given: reject those at most alpha.

    The chance of any wrong rejection is then at most alpha, whatever the dependence.

    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for step, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - step) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)
