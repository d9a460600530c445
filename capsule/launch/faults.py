"""Faults of a world of ranks, in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Fault of a world, with its remedy.

    Attributes:
        what: One sentence.
        advice: The likely cause, and what mends it.
    """

    what: str
    advice: str
