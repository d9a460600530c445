"""Claims on a distribution: the samples of all runs of a side, such as latencies, pooled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from capsule.diff import Pair
from capsule.record import FrozenClaim
from capsule.summary import MetricRuns
from capsule.verdict import advising, sides, wording
from capsule.verdict.model import Advice, Judged

_SETTLED = 0.1  # part of a run's samples that a longer warm-up would have to cut, to be told


@dataclass(frozen=True)
class _Pool:
    """Every sample of a side, run after run in the order of seeds, and how many are independent."""

    values: Any  # a numpy array
    effective: float
    unsettled: int


def judge(blank: Judged, pair: Pair, claim: FrozenClaim) -> Judged:
    """Kolmogorov's distance of the pooled samples, held against the distance that is allowed."""
    from capsule import stats

    assert pair.original is not None
    assert pair.rerun is not None
    assert claim.upper is not None
    pools = [_pool(sides.independent(side)) for side in (pair.original, pair.rerun)]
    a, b = pools
    if a is None or b is None:
        side = "original" if a is None else "re-execution"
        return replace(
            blank,
            sentence=f"a distribution is of samples inside runs, and a run of the {side} has none"
            " or one",
        )
    band = stats.kolmogorov(
        a.values,
        b.values,
        effective_a=a.effective,
        effective_b=b.effective,
        alpha=blank.level,
    )
    decision = band.decide(claim.upper)
    found = replace(
        blank,
        word=decision.word,
        method="kolmogorov",
        estimate=band.distance,
        lower=band.lower,
        upper=band.upper,
        alpha_used=band.alpha,
        p_reproduced=decision.p_reproduced,
        p_different=decision.p_different,
        sentence=wording.distribution(
            decision.word, (band.distance, band.lower, band.upper), claim.upper
        ),
        notes=(*blank.notes, *_notes(pair, a, b)),
    )
    if decision.word != "INCONCLUSIVE":
        return found
    return replace(found, advice=_advice(a, band.distance, claim.upper, blank.level))


def _pool(metric: MetricRuns) -> _Pool | None:
    import numpy as np

    from capsule import stats

    runs: list[Any] = [
        np.asarray(sides.series(run)) for run in metric.runs if run.value is not None
    ]
    if not runs or min(map(len, runs)) < 2:
        return None
    within = math.fsum(map(stats.effective_sample_size, runs))
    unsettled = sum(stats.mser5(run) > _SETTLED * len(run) for run in runs)
    return _Pool(np.concatenate(runs), min(within, _between(runs)), unsettled)


def _between(runs: Sequence[Any]) -> float:
    """How many independent samples the spread of the runs' means allows.

    Samples that share a run share what is particular to it. The variance of their common mean is
    that of the runs' means over the number of runs; so many independent samples have it too.
    """
    n = sum(map(len, runs))
    size = max(float(abs(run).max()) for run in runs)
    if len(runs) < 2 or size == 0:
        return float(n)
    runs = [run / size for run in runs]  # no square can overflow
    means = [float(run.mean()) for run in runs]
    centre = math.fsum(means) / len(means)
    between = math.fsum((mean - centre) ** 2 for mean in means) / (len(means) - 1)
    total = math.fsum(float(((run - centre) ** 2).sum()) for run in runs) / n
    if between * n <= total * len(runs):
        return float(n)
    found = max(1.0, len(runs) * total / between)
    return float(f"{found:.9g}")  # the last digits of a sum depend on the machine


def _notes(pair: Pair, a: _Pool, b: _Pool) -> list[str]:
    told = [
        f"{len(a.values)} samples of the original are worth {a.effective:.3g} independent ones,"
        f" {len(b.values)} of the re-execution {b.effective:.3g}"
    ]
    for name, side, runs in (
        ("original", a, pair.original),
        ("re-execution", b, pair.rerun),
    ):
        if runs is not None and 2 * side.unsettled > len(runs.values):
            told.append(f"most runs of the {name} settle only later: a longer warm-up is advised")
    return told


def _advice(a: _Pool, distance: float, allowed: float, alpha: float) -> Advice:
    from capsule.stats.samples import samples_beside

    def needed(power: float) -> int | None:
        return samples_beside(a.effective, allowed, alpha=alpha, power=power)

    return advising.samples(needed, possible=distance != allowed)
