"""Judgement of bounds, which must hold for every single run: no value is averaged.

No chance is involved, and none is corrected for: a run beyond the bound is DIFFERENT with a p of 0.
What runs that keep the bound say of all others is a rate of bad runs, told in the sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from capsule import population, stats
from capsule.diff import Pair
from capsule.notes import Note
from capsule.record import FrozenClaim
from capsule.sentences import Sentence
from capsule.summary import MetricRuns, Run
from capsule.verdict import wording, words
from capsule.verdict.model import Judged

# claims that one run contradicts; to the others a value that is not finite is a run that failed
_OF_EVERY_RUN = ("bound", "exact")
_Seeded = tuple[int, float]


def find_breach(blank: Judged, pair: Pair) -> Judged | None:
    """The judgement of a claim that single runs settle already, None where they settle nothing.

    A run of the re-execution beyond a bound is DIFFERENT, and so is one whose value is not finite
    under an exact claim with a finite one on the other side. An original that breaks its own bound
    leaves nothing to reproduce: INCONCLUSIVE, unless only the re-execution has values that are not
    finite. Nothing else is settled where the two sides are not of one scale.
    """
    claim, there, here = pair.claim, pair.original, pair.rerun
    if claim is None or there is None or here is None or there.unit != here.unit:
        return None
    if claim.type == "exact":
        return _compare_finiteness(blank, there, here)
    if claim.type != "bound":
        return None
    own, others = _breaches(there, claim), _breaches(here, claim)
    new = [one for one in others if not math.isfinite(one[1])]
    if new and all(math.isfinite(value) for _, value in own):
        return _differ(blank, here, claim, others)
    if pair.scale is not None:
        return None
    if own:
        sentence = _word_breaches(own, there, claim, is_original=True)
        return replace(blank, method="bound", sentence=sentence)
    return _differ(blank, here, claim, others) if others else None


def judge(blank: Judged, pair: Pair, claim: FrozenClaim) -> Judged:
    """The judgement of a bound that no run breaks, with the rate of bad runs that this excludes.

    Runs that repeat each other's values under other seeds count as one.
    """
    assert pair.rerun is not None
    values = [(run.seed, run.value) for run in pair.rerun.runs if run.value is not None]
    worst = max(values, key=_badness(claim))
    runs = population.independent(pair.rerun).values
    return replace(
        _decide(blank, worst[1]),
        word="REPRODUCED",
        p_reproduced=0.0,
        p_different=1.0,
        sentence=words.judgements.bound(
            runs=len(values),
            allowed=wording.constants(claim),
            worst=_show(worst[1], claim),
            seed=worst[0],
            bad_runs=100 * stats.failure_bound(0, len(runs)),
        ),
    )


def notes(pair: Pair) -> Iterator[Note]:
    """Yield the note on values that are not finite, if the original has none.

    Of a claim that one run decides the judgement tells; for any other they are runs that failed.
    """
    claim, there, here = pair.claim, pair.original, pair.rerun
    if claim is None or claim.type in _OF_EVERY_RUN or there is None or here is None:
        return
    values = _not_finite(here)
    if values and not _not_finite(there):
        seed, value = values[0]
        yield words.NOTES(
            "not-finite",
            values=len(values),
            runs=len(here.runs),
            here=pair.names.here,
            value=value,
            seed=seed,
            there=pair.names.there,
        )


def _compare_finiteness(blank: Judged, there: MetricRuns, here: MetricRuns) -> Judged | None:
    originals = {run.seed: run for run in there.runs}
    pairs = [(originals[run.seed], run) for run in here.runs if run.seed in originals]
    changed = [(a, b) for a, b in pairs if _is_number(a) and _is_no_number(b)]
    changed += [(a, b) for a, b in pairs if _is_no_number(a) and _is_number(b)]
    if not changed:
        return None
    first, then = min(changed, key=lambda runs: runs[0].seed)
    return replace(
        blank,
        word="DIFFERENT",
        method="exact",
        alpha_used=blank.level,
        p_reproduced=1.0,
        p_different=0.0,
        sentence=words.JUDGEMENTS(
            "exact-finiteness",
            values=len(pairs),
            changed=len(changed),
            seed=first.seed,
            there=_state(first),
            here=_state(then),
        ),
    )


def _is_number(run: Run) -> bool:
    return run.value is not None


def _is_no_number(run: Run) -> bool:
    return run.not_finite is not None


def _state(run: Run) -> float:
    state = run.value if run.not_finite is None else run.not_finite
    assert state is not None
    return state


def _differ(
    blank: Judged, here: MetricRuns, claim: FrozenClaim, breaches: Sequence[_Seeded]
) -> Judged:
    worst = breaches[0][1]
    return replace(
        _decide(blank, worst if math.isfinite(worst) else None),
        word="DIFFERENT",
        p_reproduced=1.0,
        p_different=0.0,
        sentence=_word_breaches(breaches, here, claim, is_original=False),
    )


def _decide(blank: Judged, worst: float | None) -> Judged:
    return replace(blank, method="bound", estimate=worst, alpha_used=blank.level)


def _not_finite(side: MetricRuns) -> list[_Seeded]:
    return [(run.seed, run.not_finite) for run in side.runs if run.not_finite is not None]


def _breaches(side: MetricRuns, claim: FrozenClaim) -> list[_Seeded]:
    """Seed and value of every run beyond the bound, the worst first: those that are not finite."""
    badness = _badness(claim)
    values = [(run.seed, run.value) for run in side.runs if run.value is not None]
    beyond = [one for one in values if badness(one) > 0]
    return [*_not_finite(side), *sorted(beyond, key=badness, reverse=True)]


def _badness(claim: FrozenClaim) -> Callable[[_Seeded], float]:
    """Return a function that gives a run's distance beyond the bound: positive if it breaks it."""
    if claim.upper is not None:
        upper = claim.upper
        return lambda one: one[1] - upper
    assert claim.lower is not None
    lower = claim.lower
    return lambda one: lower - one[1]


def _word_breaches(
    breaches: Sequence[_Seeded], side: MetricRuns, claim: FrozenClaim, *, is_original: bool
) -> Sentence:
    seed, value = breaches[0]
    return words.judgements.broken_bound(
        runs=len(side.values) + len(_not_finite(side)),
        broken=len(breaches),
        allowed=wording.constants(claim),
        worst=_show(value, claim),
        seed=seed,
        is_original=is_original,
    )


def _show(value: float, claim: FrozenClaim) -> str:
    """A value in four digits, in all of them where four would put it on the bound's other side."""
    badness = _badness(claim)
    short = f"{value:.4g}"
    if not math.isfinite(value) or (badness((0, float(short))) > 0) == (badness((0, value)) > 0):
        return short
    return repr(value)
