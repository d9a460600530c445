"""The table by which lint says whether runs are enough for a margin in standard deviations.

    python tools/spreads.py      writes capsule/lint/spreads.json, in some minutes

A margin of two sd is frozen to twice what the original's runs show: after five runs that is 0.9 to
3.3 true sd, in nine of ten cases. Reckoned with the true sd, eight runs a side would confirm it in
93 % of cases at the first of two looks; they do in 85 %.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from pathlib import Path

import numpy as np

from capsule import stats
from capsule.stats import special

TABLE = Path(__file__).parents[1] / "capsule" / "lint" / "spreads.json"
COMMAND = "python tools/spreads.py"
# usually enough is what so many cases confirm, seldom enough what fewer than half do
USUALLY, SELDOM = 0.8, 0.5
RUNS = range(2, 51)
ALPHA = 0.05
# of 1 to 5 looks; half of each where a published mean is one side
LEVELS = tuple(
    sorted(
        level / parts
        for level in (
            stats.default_alpha(ALPHA),
            *(stats.nominal_alpha(ALPHA, n) for n in range(1, 6)),
        )
        for parts in (1, 2)
    )
)
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


def row(alpha: float) -> dict[str, object]:
    """The margins of a level, in sd of the original's own runs, by the runs on each side."""
    powers = {"usually": USUALLY, "seldom": SELDOM}
    return {
        "alpha": alpha,
        **{
            name: [narrowest_spreads(n, n, alpha=alpha, power=power) for n in RUNS]
            for name, power in powers.items()
        },
    }


def main() -> None:
    """Write the table."""
    rows = ",\n".join(f"  {json.dumps(row(alpha))}" for alpha in LEVELS)
    head = f'"command": "{COMMAND}",\n "runs": {json.dumps(list(RUNS))},\n "rows": [\n'
    TABLE.write_text(f"{{{head}{rows}\n]}}\n")


if __name__ == "__main__":
    main()
