"""Failures are an outcome too: a run without a value is counted, never left out."""

from __future__ import annotations

from dataclasses import replace

from capsule import stats
from capsule.verdict import wording
from capsule.verdict.model import Judged


def weighed(found: Judged) -> Judged:
    """A judgement of values, given how often either side gave none.

    Unequal rates of failure veto REPRODUCED; clearly unequal ones, by Fisher's exact test in
    either direction, are DIFFERENT.
    """
    failed_a, failed_b = found.original.failed, found.rerun.failed
    n_a, n_b = found.original.values + failed_a, found.rerun.values + failed_b
    if failed_a * n_b == failed_b * n_a:
        return found
    told = wording.failures(failed_a, n_a, failed_b, n_b)
    p = min(
        stats.fisher_more(failed_a, n_a, failed_b, n_b),
        stats.fisher_more(failed_b, n_b, failed_a, n_a),
    )
    level = found.level / 2
    if p < level and p / level < found.p_against_alpha:
        return replace(
            found,
            word="DIFFERENT",
            method="failures",
            alpha_used=level,
            p_reproduced=None,
            p_different=p,
            sentence=f"{told}; {found.sentence}",
            advice=None,
        )
    if found.word == "REPRODUCED":
        vetoed = f"{found.sentence}, but {told}: unequal failure rates are not reproduced"
        return replace(found, word="INCONCLUSIVE", sentence=vetoed)
    return replace(found, notes=(*found.notes, told))
