"""The samples of several runs as one pool, and how many independent ones it is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsule.stats.series import effective_sample_size, mser5

_SETTLED = 0.1  # part of a run's samples that a longer warm-up may cut without being told


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Every sample of a side.

    Attributes:
        values: Run after run.
        effective: How many independent samples they are worth.
        unsettled: How many runs settle only after a tenth of their samples.
    """

    values: NDArray[np.float64]
    effective: float
    unsettled: int


def pool(runs: Sequence[Sequence[float]]) -> Pool | None:
    """Pool the samples of each run; None without a run, or where one has fewer than two samples.

    >>> pool([[1.0, 2.0, 1.5, 2.5, 1.0], [1.5, 2.0, 1.0, 2.5, 2.0]]).effective
    10.0
    """
    series = [np.asarray(run, dtype=float) for run in runs]
    if not series or min(map(len, series)) < 2:
        return None
    within = math.fsum(effective_sample_size(run) for run in series)
    return Pool(
        values=np.concatenate(series),
        effective=min(within, _between(series)),
        unsettled=sum(mser5(run) > _SETTLED * len(run) for run in series),
    )


def _between(runs: Sequence[NDArray[np.float64]]) -> float:
    """Return the number of independent samples that the spread of runs' means allows.

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
    effective = max(1.0, len(runs) * total / between)
    return float(f"{effective:.9g}")  # the last digits of a sum depend on the machine
