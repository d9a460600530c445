"""Sentences on a metric over several machines."""

from __future__ import annotations

from capsule.sentences import Sentence, Templates

SPREADS = Templates(Sentence)


@SPREADS.template("precision")
def precision(
    *,
    of: str,
    total: str,
    low: str,
    high: str,
    unit: str,
    within: str,
    between: str,
    machines: int,
    limit: str,
) -> str:
    """State the spread of runs and of machines.

    Args:
        of: What of a run is judged, empty for its value.
        total: Between single runs on different machines.
        low: Its lower limit.
        high: Its upper limit.
        unit: Behind these, empty for none.
        within: Between runs on one machine.
        between: Between machines.
        machines: How many.
        limit: What two such runs seldom differ by.
    """
    return (
        f"{f'{of}: ' if of else ''}s_R {total} ({low} to {high}){unit}: s_r {within} between runs,"
        f" s_L {between} between {machines} machines; two single runs on two such machines seldom"
        f" differ by more than {limit} (2.8 s_R)"
    )


@SPREADS.template("no-precision")
def no_precision(*, of: str, why: str) -> str:
    """Word why a spread over machines is unknown."""
    return f"{f'{of}: ' if of else ''}no spread over machines: {why}"


SPREADS |= {
    "mean": "random-effects {is_geometric:geometric mean|mean} over {machines:d} machines {shown}",
    "no-mean": "no mean: {why}",
}


@SPREADS.template("not-of-values")
def not_of_values(*, claim: str) -> str:
    """Word why the values that a claim compares have no spread.

    Args:
        claim: Type of the claim.
    """
    if claim == "exact":
        return "an exact claim compares values seed by seed, so it has no spread"
    what = "whole curves" if claim == "curve" else "the values inside runs"
    return f"a {claim} claim compares {what} instead of one value per run, so it has no spread"


SPREADS |= {
    "too-few-capsules": "fewer than two capsules have a value",
    "too-few-runs": "each capsule has at most one independent run, too few for a spread between"
    " runs",
    "of-machines": "the metric describes one machine, and a mean over machines would describe no"
    " machine",
    "too-few-machines": "fewer than three capsules have a value: too few to describe machines in"
    " general",
    "different-machines": "the claim is DIFFERENT in {sides:and}. A mean over all sides would"
    " describe no side",
}
