"""What runs confirm of a margin that the original's own spread makes."""

import math

import numpy as np
import pytest

from capsule import stats
from capsule.lint.frozen import narrowest_spreads, runs_for_spreads

REPETITIONS = 800


def confirmed(n_a: int, n_b: int, spreads: float) -> float:
    """How often the rule itself confirms so many sd of the original's runs, nothing changed."""
    random = np.random.default_rng([5, n_a, n_b])
    hits = 0
    for _ in range(REPETITIONS):
        a, b = (stats.Runs.of(dict(enumerate(random.standard_normal(n)))) for n in (n_a, n_b))
        margin = spreads * a.sd / stats.c4(n_a)
        interval = stats.shift(a, b, alpha=0.05)
        assert interval is not None
        region = stats.Region(lower=-margin, upper=margin)
        hits += stats.decide(interval, region).word == "REPRODUCED"
    return hits / REPETITIONS


@pytest.mark.parametrize(
    ("n_a", "n_b", "power"), [(4, 4, 0.8), (5, 5, 0.9), (6, 6, 0.8), (5, 8, 0.8), (8, 4, 0.8)]
)
def test_the_promised_power_is_what_the_rule_reaches(n_a: int, n_b: int, power: float) -> None:
    spreads = narrowest_spreads(n_a, n_b, alpha=0.05, power=power)
    # four standard errors of so many repetitions
    assert confirmed(n_a, n_b, spreads) == pytest.approx(power, abs=0.056)


def test_an_estimated_margin_takes_more_than_a_known_one() -> None:
    for n in (3, 5, 8):
        known = stats.narrowest_margin(n, n, alpha=0.05, power=0.8)
        assert narrowest_spreads(n, n, alpha=0.05, power=0.8) > 1.05 * known
    for k in (1, 1.5, 2, 2.8):
        of_known = stats.runs_for_margin(k, alpha=0.05, power=0.8)
        of_estimated = runs_for_spreads(k, alpha=0.05, power=0.8)
        assert of_known is not None
        assert of_estimated is not None
        assert of_estimated >= of_known
    assert runs_for_spreads(2, alpha=0.05, power=0.8) == 7


@pytest.mark.parametrize(("n_a", "n_b"), [(1, 5), (1, 1), (5, 0)])
def test_an_original_of_one_run_has_no_spread(n_a: int, n_b: int) -> None:
    assert math.isinf(narrowest_spreads(n_a, n_b, alpha=0.05, power=0.8))


def test_one_re_run_confirms_a_wide_margin_only() -> None:
    one = narrowest_spreads(9, 1, alpha=0.025, power=0.8)
    assert 1.5 * narrowest_spreads(9, 9, alpha=0.025, power=0.8) < one < math.inf


def test_no_number_of_runs_confirms_hardly_any_margin() -> None:
    assert runs_for_spreads(0.1, alpha=0.05, power=0.8) is None
