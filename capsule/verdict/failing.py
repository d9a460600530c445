"""Failures are an outcome too: a run without a value is counted, never left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from capsule import stats
from capsule.notes import Note
from capsule.verdict import advising, wording
from capsule.verdict.model import Judged

_SHARE = 0.25  # of a claim's error rate, where a run failed; the values keep the rest


def judge(blank: Judged, judge_values: Callable[[Judged], Judged]) -> Judged:
    """The judgement of values by their own rule, and of how often either side gave none.

    Values and failures are two chances to be called DIFFERENT, so where a run failed on either
    side each has its own share of the level. REPRODUCED needs both and shares nothing.
    """
    judged = judge_values(blank)
    if not blank.original.failed and not blank.rerun.failed:
        return judged
    if judged.word == "DIFFERENT":
        share = (1 - _SHARE) * blank.level
        judged = replace(judge_values(replace(blank, level=share)), level=blank.level)
    return _weigh(judged)


def _weigh(judged: Judged) -> Judged:
    failed_a, failed_b = judged.original.failed, judged.rerun.failed
    n_a, n_b = judged.original.values + failed_a, judged.rerun.values + failed_b
    failures = wording.failures(failed_a, n_a, failed_b, n_b, judged.names)
    p = 2 * min(
        stats.fisher_more(failed_a, n_a, failed_b, n_b),
        stats.fisher_more(failed_b, n_b, failed_a, n_a),
    )
    share = _SHARE * judged.level
    if p <= share and p / share < judged.p_against_alpha:
        return replace(
            judged,
            word="DIFFERENT",
            method="failures",
            alpha_used=share,
            p_reproduced=None,
            p_different=p,
            sentence=f"{failures}; {judged.sentence}",
            advice=None,
        )
    if judged.word == "REPRODUCED" and stats.veto(failed_a, n_a, failed_b, n_b):
        vetoed = f"{judged.sentence}, but {failures}: rates so unequal are not reproduced"
        # both sides of a pair run again, and nobody knows which of them fails then
        further = (
            None if judged.seeds == "pair" else advising.failures(failed_a, n_a, failed_b, n_b)
        )
        return replace(judged, word="INCONCLUSIVE", sentence=vetoed, advice=further)
    if failed_a * n_b == failed_b * n_a:
        return judged
    return replace(judged, notes=(*judged.notes, Note(code="unequal-failures", sentence=failures)))
