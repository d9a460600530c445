"""The error rate of a judgement, or the reason why none holds.

A rate is printed only for designs that a row of the acceptance table covers
(`benchmarks/statistics/acceptance.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from capsule import population, stats
from capsule.diff import Pair, cautions, days
from capsule.sentences import Sentence
from capsule.summary import MetricRuns
from capsule.verdict import shifts, words
from capsule.verdict.model import Judged

# with more of them together, or one after the other, single error rates add up to more than Holm
# and looks allow for
MAX_ONE_SETS = 5
MAX_CHAIN = 5
MAX_SPREAD_RATIO = 2
_MIN_CURVES = 3


def mark(claims: Sequence[Judged], pairs: Sequence[Pair], *, verifications: int) -> list[Judged]:
    """Return the claims, each with the reason why it has no error rate, if it has none.

    Args:
        claims: As judged, Holm's correction included.
        pairs: The runs of each claim.
        verifications: How many of them contribute to the re-run.
    """
    one_sets = sum(one.decisive and _is_one_set(one) for one in claims)
    return [
        replace(one, no_rate=next(_obstacles(one, pair, one_sets, verifications), None))
        if one.decisive
        else one
        for one, pair in zip(claims, pairs, strict=True)
    ]


def mark_chain(claims: Iterable[Judged], reruns: int) -> tuple[Judged, ...]:
    """Return the claims of one of several re-runs, without error rates if these are too many."""
    if reruns <= MAX_CHAIN:
        return tuple(claims)
    chain = words.RATES("chain", claims=1, most=MAX_CHAIN)
    return tuple(
        replace(one, no_rate=one.no_rate or chain) if one.decisive else one for one in claims
    )


def summarize(claims: Iterable[Judged], *, is_of_pairs: bool = False) -> Sentence | None:
    """Return the rate of wrong verdicts on claims, and for which of them none is known.

    Args:
        claims: As judged, each by one re-run or by several.
        is_of_pairs: Whether the rate is that of DIFFERENT, corrected for several re-runs.

    Returns:
        None where no claim decides anything.
    """
    decisive = [one for one in claims if one.decisive]
    if not decisive:
        return None
    excepted = {(one.metric, one.claim): one.no_rate for one in decisive if one.no_rate is not None}
    without = tuple(_join(excepted.values()))
    rated = [one for one in decisive if (one.metric, one.claim) not in excepted]
    if not rated:
        return words.RATES("no-rates", without=without)
    return words.rates.rates(
        levels=tuple(sorted({one.alpha for one in rated})),
        of="rounds"
        if all(one.seeds == "pair" for one in rated)
        else "one side"
        if all(_is_of_one_side(one) for one in rated)
        else "sides",
        is_of_pairs=is_of_pairs,
        without=without,
    )


def _join(reasons: Collection[Sentence]) -> Iterator[str]:
    """Yield each reason once, with the number of claims that have it."""
    counts = Counter(reason.code for reason in reasons)
    facts = {reason.code: reason.facts for reason in reasons}
    for code, claims in counts.items():
        others = tuple(fact for fact in facts[code] if fact[0] != "claims")
        text = words.RATES.say(code, (("claims", claims), *others))
        assert text is not None
        yield text


def _obstacles(one: Judged, pair: Pair, one_sets: int, verifications: int) -> Iterator[Sentence]:
    """Yield why an error rate does not hold: it is about fresh runs that vary by chance."""
    claim = one.claim
    assert claim is not None
    if claim.type in ("exact", "bound"):
        yield words.RATES("exact" if claim.type == "exact" else "bound", claims=1)
    counts = (one.rerun,) if _is_standalone(one) else (one.original, one.rerun)
    if one.method == "none" or not all(side.independent for side in counts):
        yield words.RATES("none", claims=1)
        return
    if any(side.independent < 2 for side in counts):
        yield words.RATES("single", claims=1)
        return
    if one.lower is not None and one.lower == one.upper:
        yield words.RATES("constant", claims=1)  # an interval without any width: nothing varied
    sides = (pair.rerun,) if _is_standalone(one) else (pair.original, pair.rerun)
    if days.is_of_a_machine(pair):
        if any(map(cautions.interruptions, sides)):
            yield words.RATES("interrupted", claims=1)
        # rounds of a pair share the day on purpose
        if one.seeds != "pair" and any(map(days.is_of_one_day, sides)):
            yield words.RATES("one-allocation", claims=1)
    if claim.type == "curve" and any(side.independent < _MIN_CURVES for side in counts):
        yield words.RATES("few-curves", claims=1)
    if one_sets > MAX_ONE_SETS and _is_one_set(one):
        yield words.RATES("many-claims", claims=1, most=MAX_ONE_SETS)
    if verifications > MAX_CHAIN:
        yield words.RATES("chain", claims=1, most=MAX_CHAIN)
    if one.seeds == "same" or (one.seeds != "pair" and _have_common_seeds(one)):
        yield words.RATES("equal", claims=1)
    yield from _unlike_sides(one, pair)


def _is_standalone(one: Judged) -> bool:
    """Return whether the original's runs are not what the re-run is compared with."""
    assert one.claim is not None
    return one.claim.type == "threshold" or one.claim.pattern.published is not None


def _is_of_one_side(one: Judged) -> bool:
    return one.claim is not None and one.claim.type == "threshold"


def _is_one_set(one: Judged) -> bool:
    """Return whether one set of values is judged, which no second set guards against skew."""
    assert one.claim is not None
    return _is_standalone(one) or one.seeds == "pair" or (one.seeds == "same" and one.claim.paired)


def _have_common_seeds(one: Judged) -> bool:
    return not set(one.original.seeds).isdisjoint(one.rerun.seeds)


def _unlike_sides(one: Judged, pair: Pair) -> Iterator[Sentence]:
    """Yield how the sides differ in spread, or hold an outlier; rounds are judged by blocks."""
    if one.seeds == "pair" or one.method == "failures":
        return
    assert one.claim is not None
    if _is_standalone(one):
        assert pair.rerun is not None
        sides = [_runs(pair.rerun)]
    else:
        sides = list(shifts.both(pair, one.claim))
    spreads = [side.floored_sd for side in sides]
    if one.claim.pattern.published is not None:
        spreads.append(one.claim.pattern.published.sd)
    if max(spreads) > MAX_SPREAD_RATIO * min(spreads):
        yield words.RATES("spreads", claims=1, most=MAX_SPREAD_RATIO)
    if any(map(stats.has_outlier, sides)):
        yield words.RATES("outlier", claims=1)


def _runs(side: MetricRuns) -> stats.Runs:
    return population.runs(population.independent(side))
