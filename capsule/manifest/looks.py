"""After how many re-run seeds claims are judged: planned before anything of a re-run is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import comb

from capsule.manifest.model import Claim

# what compares value by value, or decides nothing, is not looked at twice
_WITHOUT = ("exact", "bound", "ratio")
# compared with the original's runs at each look, by a test on both sides
_OF_TWO_SIDES = ("equivalence", "noninferiority", "prediction", "curve", "distribution")
# about so much of the error rate does each of two looks have: 0.69 at 0.05, 0.76 at 0.2
_PART = Fraction(3, 4)


def plan(claims: Iterable[Claim], runs: int) -> tuple[int, ...]:
    """Return the looks of all claims of a capsule: as many as one of them plans, else two.

    A first look that cannot confirm anything is left out: 3 + 3 runs can be dealt out in 20 ways,
    too few for a test at the level of two looks, while 3 + 6 can in 84.

    Args:
        claims: As the author wrote them; those that plan looks plan the same ones.
        runs: Runs of the original: as many are the first look, twice as many the second.

    >>> plan([Claim(metric="a/b/c/d", type="equivalence")], 5)
    (5, 10)
    >>> plan([Claim(metric="a/b/c/d", type="equivalence")], 3)
    (6,)
    """
    return next(_plans(claims, runs))


def accepted(claims: Iterable[Claim], runs: int) -> tuple[tuple[int, ...], ...]:
    """Return the plan of this version, then that of versions that left out no first look."""
    return tuple(_plans(claims, runs))


def _plans(claims: Iterable[Claim], runs: int) -> Iterator[tuple[int, ...]]:
    claims = tuple(claims)
    planned = next((claim.looks for claim in claims if claim.looks), None)
    if planned is not None:
        yield planned
        return
    looked_at = [claim for claim in claims if claim.type not in _WITHOUT]
    if looked_at and all(_first_is_void(claim, runs) for claim in looked_at):
        yield (2 * runs,)
    yield (runs, 2 * runs)


def _first_is_void(claim: Claim, runs: int) -> bool:
    """Return whether no relabeling of the first of two looks is rare enough, and one of the second
    alone is.
    """
    alpha = Fraction(claim.alpha)
    return (
        _is_of_two_sides(claim)
        and comb(2 * runs, runs) * alpha * _PART < 1 <= comb(3 * runs, runs) * alpha
    )


def _is_of_two_sides(claim: Claim) -> bool:
    return claim.type in _OF_TWO_SIDES and claim.published is None


def level(claim: Claim, planned: tuple[int, ...], runs: int) -> float:
    """Return the one-sided level of each planned look at a claim.

    Args:
        claim: As the author wrote it.
        planned: Looks, as numbers of re-run seeds; none for a claim that is judged once.
        runs: Runs of the original.
    """
    from capsule import stats

    if planned == (runs, 2 * runs) and _is_of_two_sides(claim):
        return stats.default_alpha(claim.alpha)
    return stats.nominal_alpha(claim.alpha, len(planned) or 1)


def has_more(claims: Iterable[Claim], runs: int) -> bool:
    """Return whether the first look that nobody planned has another one behind it."""
    claims = tuple(claims)
    return not is_planned(claims) and len(plan(claims, runs)) > 1


def level_of(claim: Claim, claims: Iterable[Claim], runs: int) -> float:
    """Return the level of a claim's first look if the original has some number of runs."""
    return level(claim, of(claim, plan(claims, runs)), runs)


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
