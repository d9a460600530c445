"""The test of a claimed margin on failure rates, held against all outcomes that there are."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from capsule import stats

Outcomes = NDArray[np.float64]
SIDES = [(5, 5), (10, 5), (8, 12), (30, 30)]


def outcomes(n_a: int, n_b: int, margin: float, alpha: float, *, within: bool) -> Outcomes:
    """1 where the test rejects; rows are A's failures, columns B's."""
    p = stats.p_within if within else stats.p_past
    cells = [[p(a, n_a, b, n_b, margin) <= alpha for b in range(n_b + 1)] for a in range(n_a + 1)]
    return np.array(cells, dtype=float)


def largest_rate(rejects: Outcomes, shift: float) -> float:
    """Of a rejection, over all pairs of rates of which B's is higher by `shift`."""
    rates = np.linspace(0, 1 - shift, 1001)[:, None]
    n_a, n_b = (length - 1 for length in rejects.shape)
    of_a = binom.pmf(np.arange(n_a + 1), n_a, rates)
    of_b = binom.pmf(np.arange(n_b + 1), n_b, np.minimum(rates + shift, 1))
    return float(np.max(np.sum((of_a @ rejects) * of_b, axis=1)))


@pytest.mark.parametrize("margin", [0.1, 0.3])
@pytest.mark.parametrize(("n_a", "n_b"), SIDES)
def test_rates_on_the_margin_are_confirmed_and_denied_at_the_level_at_most(
    n_a: int, n_b: int, margin: float
) -> None:
    for within, alpha in ((True, 0.05), (False, 0.05), (False, 0.0125)):
        rejects = outcomes(n_a, n_b, margin, alpha, within=within)
        error = max(largest_rate(rejects, margin), largest_rate(rejects.T, margin))
        assert error <= alpha + 1e-4
        # rates closer than the margin are denied no more often, farther ones confirmed no more
        nearer_or_farther = margin * (1.5 if within else 0.5)
        assert largest_rate(rejects, nearer_or_farther) <= alpha


def test_neither_side_is_called_the_first() -> None:
    for p in (stats.p_within, stats.p_past):
        assert p(2, 12, 7, 20, 0.2) == pytest.approx(p(7, 20, 2, 12, 0.2))
        # and a failure is counted as a success is
        assert p(2, 12, 7, 20, 0.2) == pytest.approx(p(10, 12, 13, 20, 0.2))


def test_the_fewest_runs_without_failure_are_those_of_one_rate() -> None:
    """A's rate may be 0: then B's is on the margin, and all depends on B's runs never failing."""
    for margin in (0.1, 0.2, 0.3):
        runs = stats.runs_without_failure(margin, alpha=0.05)
        assert runs is not None
        assert (1 - margin) ** runs <= 0.05 < (1 - margin) ** (runs - 1)
    assert stats.runs_without_failure(0.001, alpha=0.05) is None


def test_so_many_runs_confirm_as_often_as_promised() -> None:
    runs = stats.runs_to_confirm_rate(1, 40, 0, 10, margin=0.2, alpha=0.05)
    assert isinstance(runs, int)
    further = runs - 10
    confirmed = sum(
        binom.pmf(k, further, 1 / 40)
        for k in range(further + 1)
        if stats.p_within(1, 40, k, runs, 0.2) <= 0.05
    )
    assert confirmed >= 0.8


@pytest.mark.parametrize(
    ("failed_a", "n_a", "margin", "answer"),
    [
        (0, 10, 0.1, "original-too-few"),
        (0, 0, 0.1, "original-too-few"),
        (100, 200, 0.01, "on-the-margin"),
    ],
)
def test_what_no_number_of_re_runs_confirms(
    failed_a: int, n_a: int, margin: float, answer: str
) -> None:
    assert stats.runs_to_confirm_rate(failed_a, n_a, 0, 5, margin=margin, alpha=0.05) == answer
