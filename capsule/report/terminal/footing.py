"""What stands below a verdict: how likely a wrong one is, where anybody can say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from capsule.verdict import Judged
from capsule.verdict.wording import count, number

_ON_A_CLAIM = "either wrong verdict on a claim"
_REASONS = {
    "exact": ("exact claim", "exact claims"),
    "bound": (
        "hard bound, which chance does not decide",
        "hard bounds, which chance does not decide",
    ),
    "none": ("claim without runs to compare", "claims without runs to compare"),
    "single": ("claim on a single run of a side", "claims on a single run of a side"),
    "constant": ("claim on runs that no chance moved", "claims on runs that no chance moved"),
    "equal": ("claim on equal seeds of both sides", "claims on equal seeds of both sides"),
}


def error_rate(claims: Iterable[Judged], wrong: str = _ON_A_CLAIM) -> str | None:
    """The rate of wrong verdicts on claims, and on which of them nobody can state one.

    Args:
        claims: As judged, each by one re-execution or by several.
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
        return f"none can be stated for {without}"
    rates = " or ".join(f"{number(100 * level)} %" for level in levels)
    sentence = f"{wrong} has a probability of at most {rates}"
    if rounds:
        sentence += ", where rounds vary independently of each other"
    return f"{sentence}; none can be stated for {without}" if without else sentence


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
