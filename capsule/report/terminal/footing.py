"""The error-rate line of a verdict report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from capsule import stats
from capsule.verdict import Judged
from capsule.verdict.wording import count, number

_ON_A_CLAIM = "a wrong REPRODUCED, and of a wrong DIFFERENT, per claim"
_REASONS = {
    "exact": ("exact claim", "exact claims"),
    "bound": ("hard bound (no chance involved)", "hard bounds (no chance involved)"),
    "none": ("claim without runs to compare", "claims without runs to compare"),
    "single": ("claim with a single run on one side", "claims with a single run on one side"),
    "constant": ("claim on runs that do not vary", "claims on runs that do not vary"),
    "equal": ("claim under equal seeds", "claims under equal seeds"),
}


def error_rate(claims: Iterable[Judged], wrong: str = _ON_A_CLAIM) -> str | None:
    """Return the rate of wrong verdicts on claims, and for which of them none is known.

    Args:
        claims: As judged, each by one re-run or by several.
        wrong: What the rate is of.

    Returns:
        A sentence, None where no claim decides anything.
    """
    decisive = [one for one in claims if one.decisive]
    if not decisive:
        return None
    excepted = {(one.metric, one.claim): reason for one in decisive if (reason := _no_rate(one))}
    reasons = Counter(excepted.values())
    without = " and ".join(count(number, *_REASONS[name]) for name, number in reasons.items())
    rounds = all(one.seeds == "pair" for one in decisive)
    levels = sorted({one.alpha for one in decisive if (one.metric, one.claim) not in excepted})
    if not levels:
        return f"none for {without}"
    rates = " or ".join(f"{number(100 * level)} %" for level in levels)
    sentence = f"at most {rates} chance of {wrong}"
    if rounds:
        sentence += ", if rounds vary independently of each other"
    if any(one.method == "paired" for one in decisive):
        unlike = number(100 * stats.UNLIKE_RATE)
        sentence += f" (up to {unlike} % in place of 5 % where paired sides vary unlike each other)"
    return f"{sentence}; none for {without}" if without else sentence


def _no_rate(one: Judged) -> str | None:
    """Why an error rate does not hold for a claim: it is about fresh runs that vary by chance."""
    claim = one.claim
    assert claim is not None
    if claim.type in ("exact", "bound"):
        return claim.type
    standalone = claim.type == "threshold" or claim.pattern.published is not None
    sides = (one.rerun,) if standalone else (one.original, one.rerun)
    if not all(side.independent for side in sides):
        return "none"
    if any(side.independent < 2 for side in sides):
        return "single"
    if one.lower is not None and one.lower == one.upper:
        return "constant"  # an interval without any width: nothing varied
    if one.seeds == "pair":
        return None  # its rounds vary by what the node does, under seeds that are equal on purpose
    shared = set(one.original.seeds) & set(one.rerun.seeds)
    return "equal" if shared or one.seeds == "same" else None
