"""Judge whether runs are enough for a margin in standard deviations of the original's runs.

By a table, which `python tools/spreads.py` simulates and writes. It has as many runs on both sides:
with more on one of them no fewer cases are confirmed than the table says for the smaller number.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal

Word = Literal["usually", "sometimes", "seldom"]
"""In four of five cases or more, in fewer, or in fewer than half, if nothing changed."""


def word(margin: float, n_a: int, n_b: int, *, alpha: float) -> Word:
    """Return how often so many runs confirm a margin, nothing changed.

    Args:
        margin: In standard deviations that the original's runs show.
        n_a: The original's runs.
        n_b: The re-execution's.
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
    # the level itself or the next stricter one, which promises no more than there is
    stricter = [row for row in _table()["rows"] if row["alpha"] <= alpha * (1 + 1e-9)]
    limits = zip(_table()["runs"], stricter[-1]["usually"], strict=True) if stricter else ()
    return next((runs for runs, limit in limits if limit <= margin), None)


@cache
def _table() -> dict[str, Any]:
    """Rows by level, the strictest first: `usually` are enough from here on, `seldom` below."""
    table: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_bytes())
    return table
