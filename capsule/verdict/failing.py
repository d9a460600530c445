"""Failures are an outcome too: a run without a value is counted, never left out."""

from __future__ import annotations

from dataclasses import replace

from capsule import stats
from capsule.notes import Note
from capsule.verdict import wording
from capsule.verdict.model import Judged


def weigh(judged: Judged) -> Judged:
    """A judgement of values, given how often either side gave none.

    Unequal rates of failure veto REPRODUCED; clearly unequal ones, by Fisher's exact test in
    either direction, are DIFFERENT.
    """
    failed_a, failed_b = judged.original.failed, judged.rerun.failed
    n_a, n_b = judged.original.values + failed_a, judged.rerun.values + failed_b
    if failed_a * n_b == failed_b * n_a:
        return judged
    failures = wording.failures(failed_a, n_a, failed_b, n_b)
    p = min(
        stats.fisher_more(failed_a, n_a, failed_b, n_b),
        stats.fisher_more(failed_b, n_b, failed_a, n_a),
    )
    level = judged.level / 2
    if p < level and p / level < judged.p_against_alpha:
        return replace(
            judged,
            word="DIFFERENT",
            method="failures",
            alpha_used=level,
            p_reproduced=None,
            p_different=p,
            sentence=f"{failures}; {judged.sentence}",
            advice=None,
        )
    if judged.word == "REPRODUCED":
        vetoed = f"{judged.sentence}, but {failures}: unequal failure rates are not reproduced"
        return replace(judged, word="INCONCLUSIVE", sentence=vetoed)
    return replace(judged, notes=(*judged.notes, Note(code="unequal-failures", sentence=failures)))
