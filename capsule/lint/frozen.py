"""What runs confirm of a margin that is itself an estimate: so many sd of the original's own runs.

A margin of two sd is frozen to twice what the original's runs show: after five runs that is 0.9 to
3.3 true sd, in nine of ten cases. Reckoned with the true sd, eight runs a side would confirm it in
93 % of cases at the first of two looks; they do in 85 %.
"""

from __future__ import annotations

import math
from functools import lru_cache

from capsule import stats

_REPETITIONS = 20_000
_SEED = 20260301
_MOST_RUNS = 500


@lru_cache(maxsize=1024)
def narrowest_spreads(n_a: int, n_b: int, *, alpha: float, power: float) -> float:
    """The fewest sd of the original's own runs that so many runs confirm with probability `power`.

    For normal runs of equal spread without any shift. Simulated with a fixed seed: how much more a
    margin has to be that is measured by the original's own sd than by the true one, by Welch's
    interval.

    Args:
        n_a: The original's runs, from which the margin is frozen.
        n_b: The re-execution's; of a single one its spread is taken to be the original's.
        alpha: The claim's one-sided error rate.
        power: Wanted probability of REPRODUCED.

    Returns:
        Infinity where no margin is confirmed: an original of one run shows no sd.

    >>> round(narrowest_spreads(5, 5, alpha=0.05, power=0.65), 1)
    1.9
    """
    if n_a < 2 or n_b < 1:
        return math.inf
    # to read a capsule needs neither
    import numpy as np

    from capsule.stats import special

    random = np.random.default_rng([_SEED, n_a, n_b])
    shift = math.sqrt(1 / n_a + 1 / n_b) * np.abs(random.standard_normal(_REPETITIONS))
    own = random.chisquare(n_a - 1, _REPETITIONS) / (n_a - 1)
    variance, df = own * (1 + 1 / n_a), np.full(_REPETITIONS, n_a - 1.0)
    if n_b > 1:
        parts = own / n_a, random.chisquare(n_b - 1, _REPETITIONS) / (n_b - 1) / n_b
        variance = parts[0] + parts[1]
        df = variance**2 / (parts[0] ** 2 / (n_a - 1) + parts[1] ** 2 / (n_b - 1))
    reach = shift - special.stdtrit(df, alpha) * np.sqrt(variance)
    in_own_sd = reach * stats.c4(n_a) / np.sqrt(own)
    more = np.quantile(in_own_sd, power) / np.quantile(reach, power)
    return float(f"{more * stats.narrowest_margin(n_a, n_b, alpha=alpha, power=power):.4g}")


def runs_for_spreads(k: float, *, alpha: float, power: float) -> int | None:
    """How many runs a side confirm a margin of `k` sd of the original's own runs.

    Returns:
        None when 500 are not enough.
    """
    # what is estimated takes no fewer runs than what is known
    start = stats.runs_for_margin(k, alpha=alpha, power=power)
    counts = range(start, _MOST_RUNS + 1) if start is not None else ()
    confirm = (n for n in counts if narrowest_spreads(n, n, alpha=alpha, power=power) <= k)
    return next(confirm, None)
