"""Numbers of runs needed for a margin in standard deviations between the original's runs.

By a table, which `python tools/spreads.py` simulates and writes. It has as many runs on both sides:
with more on one of them no fewer cases are confirmed than the table says for the smaller number.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

Word = Literal["usually", "sometimes", "seldom"]
"""In at least four of five cases, in fewer, or in fewer than half, if nothing changed."""


def word(margin: float, n_a: int, n_b: int, *, alpha: float) -> Word:
    """Return how often runs confirm a margin if nothing changed.

    Args:
        margin: In standard deviations between the original's runs.
        n_a: Number of the original's runs.
        n_b: Number of the re-run's.
        alpha: One-sided level of the interval.

    >>> [word(margin, 5, 5, alpha=0.05) for margin in (1, 2, 3)]
    ['seldom', 'sometimes', 'usually']
    """
    fewer, more = sorted((n_a, n_b))
    if (enough := needed(margin, alpha=alpha)) and enough <= fewer:
        return "usually"
    looser = next((row for row in _table()["rows"] if row["alpha"] >= alpha), {"seldom": ()})
    limits = dict(zip(_table()["runs"], looser["seldom"], strict=False))
    return "seldom" if margin < limits.get(more, 0.0) else "sometimes"


def needed(margin: float, *, alpha: float) -> int | None:
    """Return how many runs on each side are usually enough, None for more than the table has.

    >>> needed(2, alpha=0.05), needed(0.1, alpha=0.05)
    (7, None)
    """
    return next((runs for runs, limit in _usual_limits(alpha) if limit <= margin), None)


def smallest(n_a: int, n_b: int, *, alpha: float) -> float | None:
    """Return the smallest margin for which runs are usually enough, None for a single run.

    >>> smallest(10, 20, alpha=0.05) == smallest(10, 10, alpha=0.05) < 2
    True
    """
    limits = [limit for runs, limit in _usual_limits(alpha) if runs <= min(n_a, n_b)]
    return limits[-1] if limits else None


def _usual_limits(alpha: float) -> Sequence[tuple[int, float]]:
    """Return numbers of runs, each with the smallest margin that it usually confirms."""
    # the level itself or the next stricter one, which promises no more than there is
    stricter = [row for row in _table()["rows"] if row["alpha"] <= alpha * (1 + 1e-9)]
    return list(zip(_table()["runs"], stricter[-1]["usually"], strict=True)) if stricter else []


@cache
def _table() -> dict[str, Any]:
    """Return rows by level, the strictest first: `usually` enough from here on, `seldom` below."""
    table: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_bytes())
    return table
