"""The cases, a module for each door; whoever adds a module names it here."""

from __future__ import annotations

from tests.hostile.areas import forged, results
from tests.hostile.case import Case

CASES: tuple[Case, ...] = (
    *results.CASES,
    *forged.CASES,
)
