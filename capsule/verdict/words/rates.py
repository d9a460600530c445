"""Sentences on the error rate of a verdict, and on claims without one."""

from __future__ import annotations

from typing import Literal

from capsule.sentences import Sentence, Templates
from capsule.verdict.wording import number

RATES = Templates(Sentence)

# of the usual alpha. Sides alike and unlike: benchmarks/statistics/acceptance.py, rows "real
# populations"; rounds: rows "pairs"
_USUAL = 0.05
_UNLIKE = {
    "sides": "about 10 %, and up to 25 %, where their runs look different",
    "rounds": "6 to 13 % where their runs look different",
}


# why a claim has none

RATES |= {
    "exact": "{claims:d} exact {claims:claim|claims}",
    "bound": "{claims:d} hard {claims:bound|bounds} (no chance involved)",
    "none": "{claims:d} {claims:claim|claims} without runs to compare",
    "single": "{claims:d} {claims:claim|claims} with a single run on one side",
    "constant": "{claims:d} {claims:claim|claims} on runs that do not vary",
    "interrupted": "{claims:d} {claims:claim|claims} on machine metrics with interrupted attempts",
    "one-allocation": "{claims:d} {claims:claim|claims} on machine metrics from one allocation or"
    " day",
    "few-curves": "{claims:d} {claims:curve|curves} with two runs on one side",
    "many-claims": "{claims:d} {claims:claim|claims} among more than {most:d} threshold, paired or"
    " published claims",
    "chain": "{claims:d} {claims:claim|claims} judged by more than {most:d} verifications",
    "spreads": "{claims:d} {claims:claim|claims} on sides whose spreads differ by more than a"
    " factor of {most:d}",
    "outlier": "{claims:d} {claims:claim|claims} with an outlier among the runs of one side",
    "equal": "{claims:d} {claims:claim|claims} under equal seeds",
}


# of a verdict


@RATES.template("rates")
def rates(
    *,
    levels: tuple[float, ...],
    of: Literal["sides", "one side", "rounds"],
    is_of_pairs: bool,
    without: tuple[str, ...],
) -> str:
    """State how often a word is wrong.

    Args:
        levels: Every alpha of the claims with a rate.
        of: Claims on two sides; on one side and a constant; or on the rounds of a pair.
        is_of_pairs: Whether several re-runs are judged.
        without: The claims without a rate, by their reason.
    """
    alike = " or ".join(f"{number(100 * level)} %" for level in levels)
    rate = f"about {alike}"
    if of != "one side":
        unlike = "more where their runs look different"
        if levels == (_USUAL,):
            unlike = _UNLIKE[of]
        rate += f" for two sides alike; {unlike}"
    if of == "rounds":
        rate += ", if rounds vary independently of each other"
    of_words = "wrong REPRODUCED, wrong DIFFERENT, per claim"
    if is_of_pairs:
        of_words = "any wrong DIFFERENT among the pairs"
    ending = f"; none for {' and '.join(without)}" if without else ""
    return f"{rate} ({of_words}){ending}"


RATES |= {
    "no-rates": "none for {without:and}",
}
