"""What process starts share: how many trials, and the world of their ranks."""

from __future__ import annotations

from collections.abc import Sequence

from capsule.plan import Plan

MOST_TRIALS = 500
"""Trials of one process start, so that no more have to be looked through where it is cut off."""

_WORLD_SIZE = "world_size"


def count_starts(plan: Plan) -> int:
    """How many it takes where none is cut off: one a group, or one for every `MOST_TRIALS`."""
    return sum(-(-len(group.trials) // MOST_TRIALS) for group in plan.groups)


def world_fault(metric: str, values: Sequence[float], ranks: int) -> str | None:
    """Why a world that a rank saw is not the one that was started, None where it is.

    A rank that meets nobody goes on alone without a word, and its numbers look as any others do.

    >>> world_fault("world_size", (1.0,), 4)
    'world_size is 1, and 4 ranks were started: not all of them met'
    """
    wrong = [value for value in values if value != ranks]
    if metric != _WORLD_SIZE or ranks == 1 or not wrong:
        return None
    return f"{metric} is {wrong[0]:g}, and {ranks} ranks were started: not all of them met"
