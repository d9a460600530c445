"""The formulas by exact values, which a wrong quantile or degree of freedom changes.

What they are good for is simulated beside: how often they err, in tests that are long.
"""

import pytest

from capsule.stats import (
    Interval,
    Region,
    Runs,
    Summary,
    default_alpha,
    location,
    narrowest_margin,
    nominal_alpha,
    p_beyond,
    paired_shift,
    ranks,
    shift,
    summary_shift,
)
from tests.stats.sides import known, runs

DIGITS = 1e-8


def skewed(n: int, start: float = 0.0) -> Runs:
    """Values of which each is farther from the next than the one before."""
    return runs([start + 1.25**k / 2 for k in range(n)])


def ends(interval: Interval) -> tuple[float, float]:
    return interval.lower, interval.upper


# sides, alpha, whether relabelings guard: the rule, its level, and both limits
SHIFTS = [
    (2, 2, 0.05, True, "welch", 0.025, -0.08030436528708174, 0.6803043652870818),
    (3, 3, 0.01, True, "welch", 0.005, -0.22972802095251077, 0.8297280209525106),
    (3, 3, 0.05, True, "envelope", 0.05, 0.018749999999523315, 0.5812500000004769),
    (5, 5, 0.05, True, "envelope", 0.05, -0.05742187500060281, 0.6574218750006027),
    (5, 5, 0.05, False, "envelope", 0.05, -0.051562499999999956, 0.6515625),
    (5, 5, 0.01, True, "envelope", 0.01, -0.2957031250019452, 0.8957031250019459),
    (4, 9, 0.05, True, "envelope", 0.05, 0.2999999999976014, 1.646444221284293),
    (4, 9, 0.01, True, "envelope", 0.01, 0.08691831467348954, 2.217715284201641),
    (10, 1, 0.05, True, "prediction", 0.0125, -3.8986980610599318, 2.1734077625980177),
    (1, 5, 0.01, True, "prediction", 0.0025, -1.132503813544141, 2.373910063544141),
    (30, 5, 0.05, True, "envelope", 0.05, -78.63525305701476, -1.4595291137695312),
    (12, 40, 0.01, True, "envelope", 0.01, 3.5741809263825424, 645.3438129149749),
]


@pytest.mark.parametrize(
    ("n_a", "n_b", "alpha", "relabel", "method", "level", "lower", "upper"), SHIFTS
)
def test_a_shift_has_these_limits(
    n_a: int,
    n_b: int,
    alpha: float,
    relabel: bool,
    method: str,
    level: float,
    lower: float,
    upper: float,
) -> None:
    interval = known(shift(skewed(n_a), skewed(n_b, 0.3), alpha=alpha, relabel=relabel))
    assert interval.method == method
    assert interval.alpha == pytest.approx(level)
    assert ends(interval) == pytest.approx((lower, upper), rel=DIGITS)


@pytest.mark.parametrize(
    ("n", "alpha", "level", "lower", "upper"),
    [
        (2, 0.05, 0.05 / 6, -1.824278706064101, 2.949278706064101),
        (5, 0.05, 0.05 / 6, 0.31424962113016097, 1.3271566288698389),
        (5, 0.01, 0.01 / 6, 0.021014492064841628, 1.6203917579351583),
        (20, 0.05, 0.011621131903181474, 3.093737498801998, 14.053497260966074),
    ],
)
def test_one_set_of_values_has_these_limits(
    n: int, alpha: float, level: float, lower: float, upper: float
) -> None:
    interval = known(location(skewed(n), alpha=alpha))
    assert interval.alpha == pytest.approx(level, rel=DIGITS)
    assert ends(interval) == pytest.approx((lower, upper), rel=DIGITS)


PAIRS = [
    (2, 0.05, 0.05 / 6, -1.824278706064101, 2.949278706064101),
    (5, 0.05, 0.05, 0.5, 1.220703125),
    (12, 0.01, 0.01, 0.9109403451975235, 3.7007929881413775),
    (20, 0.05, 0.05, 4.726564997860061, 12.412552147989448),
]


@pytest.mark.parametrize(("n", "alpha", "level", "lower", "upper"), PAIRS)
def test_pairs_have_these_limits(
    n: int, alpha: float, level: float, lower: float, upper: float
) -> None:
    interval = known(paired_shift(skewed(n), alpha=alpha))
    assert interval.alpha == pytest.approx(level, rel=DIGITS)
    assert ends(interval) == pytest.approx((lower, upper), rel=DIGITS)


def test_a_summary_has_these_limits() -> None:
    interval = known(summary_shift(Summary(mean=1.0, sd=0.5, n=8), skewed(4), alpha=0.05))
    assert interval.alpha == 0.025
    assert ends(interval) == pytest.approx((-0.7356730458648115, 0.17707929586481158), rel=DIGITS)


def test_looks_have_these_levels() -> None:
    levels = [nominal_alpha(0.05, looks) for looks in range(1, 6)]
    due = [0.05, 0.030367257, 0.023175014, 0.019346869, 0.016930834]
    assert levels == pytest.approx(due, rel=DIGITS)
    assert default_alpha(0.05) == pytest.approx(0.0346, abs=5e-5)
    assert nominal_alpha(0.0125, 4) == pytest.approx(0.0043369186, rel=DIGITS)


@pytest.mark.parametrize(
    ("n_a", "n_b", "alpha", "power", "margin"),
    [
        (3, 3, 0.05, 0.8, 3.299),
        (4, 4, 0.05, 0.8, 2.517),
        (2, 7, 0.0304, 0.9, 9.99),
        (5, 5, 0.05, 0.8, 2.124),
        (10, 3, 0.05, 0.9, 3.084),
        (10, 1, 0.05, 0.8, 4.309),
        (12, 12, 0.01, 0.9, 1.808),
        (40, 40, 0.05, 0.8, 0.6898074722290038),
    ],
)
def test_runs_confirm_these_margins(
    n_a: int, n_b: int, alpha: float, power: float, margin: float
) -> None:
    # where it is simulated, it is so with a seed of its own
    assert narrowest_margin(n_a, n_b, alpha=alpha, power=power) == pytest.approx(margin, rel=1e-6)


@pytest.mark.parametrize(
    ("n_a", "n_b", "p"),
    [
        (5, 5, 1.7604590909730108e-07),
        (3, 12, 0.005803274537513194),
        (12, 12, 0.00032801362051597616),
    ],
)
def test_a_shift_is_beyond_its_margin_with_these_probabilities(
    n_a: int, n_b: int, p: float
) -> None:
    a, b, region = skewed(n_a), skewed(n_b, 4.0), Region(lower=-1, upper=1)
    assert p_beyond(a, b, region) == pytest.approx(p, rel=DIGITS)
    assert p_beyond(b, a, region) == pytest.approx(p, rel=DIGITS)


def test_ranks_of_many_runs_follow_the_normal_distribution() -> None:
    assert ranks.critical_rank(50, 60, 0.05) == 1226
