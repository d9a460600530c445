"""The cases, a module for each door; whoever adds a module names it here."""

from __future__ import annotations

from tests.hostile.areas import bags, containers, documents, results, screens
from tests.hostile.case import Case

CASES: tuple[Case, ...] = (
    *results.CASES,
    *containers.CASES,
    *bags.CASES,
    *documents.CASES,
    *screens.CASES,
)
