"""After how many re-run seeds claims are judged: planned before anything of a re-run is known."""

from __future__ import annotations

from collections.abc import Iterable

from capsule.manifest.model import Claim

# what compares value by value, or decides nothing, is not looked at twice
_WITHOUT = ("exact", "bound", "ratio")


def plan(claims: Iterable[Claim], runs: int) -> tuple[int, ...]:
    """Return the looks of all claims of a capsule: as many as one of them plans, else two.

    Args:
        claims: As the author wrote them; those that plan looks plan the same ones.
        runs: Runs of the original: as many are the first look, twice as many the second.

    >>> plan([Claim(metric="a/b/c/d", type="equivalence")], 5)
    (5, 10)
    """
    return next((claim.looks for claim in claims if claim.looks), (runs, 2 * runs))


def is_planned(claims: Iterable[Claim]) -> bool:
    """Return whether an author planned the looks of these claims, for one of them or for all."""
    return any(claim.looks for claim in claims)


def place(plans: Iterable[tuple[int, ...]], runs: int) -> int | None:
    """Return the number of the look with some re-run seeds, from 1; None if not planned.

    Args:
        plans: Plan of every claim of a capsule.
        runs: Number of fresh seeds.

    >>> place([(), (5, 10)], 5), place([(5, 10)], 10), place([(5, 10)], 7)
    (1, 2, None)
    """
    planned = sorted({number for plan in plans for number in plan})
    return planned.index(runs) + 1 if runs in planned else None


def of(claim: Claim, plan: tuple[int, ...]) -> tuple[int, ...]:
    """Return the looks of a claim: all of the capsule's plan, or none.

    A paired claim has the looks of the fresh seeds that run beside its pairs.
    """
    return () if claim.type in _WITHOUT else plan
