"""How many process starts the trials of a plan share."""

from __future__ import annotations

from capsule.plan import Plan

MOST_TRIALS = 500
"""Trials of one process start, so that no more have to be looked through where it is cut off."""


def count_starts(plan: Plan) -> int:
    """How many it takes where none is cut off: one a group, or one for every `MOST_TRIALS`."""
    return sum(-(-len(group.trials) // MOST_TRIALS) for group in plan.groups)
