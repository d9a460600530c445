"""The fixed sets of relabelings and flips: the same everywhere, and fair samples of all."""

import hashlib
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from capsule.stats import fixed


def digest(labels: NDArray[np.bool_]) -> str:
    return hashlib.sha256(np.packbits(labels).tobytes()).hexdigest()[:16]


# whoever changes a set changes verdicts


@pytest.mark.parametrize(
    ("n_a", "n_b", "due"),
    [
        (11, 11, "6d3c0b209183919f"),
        (30, 5, "20345d41059e57a7"),
        (5, 30, "99118715eacca969"),
        (30, 30, "7637b92f638c2b2a"),
        (2, 700, "2bf4f5d79488d595"),
    ],
)
def test_relabelings_are_the_same_for_everybody(n_a: int, n_b: int, due: str) -> None:
    assert digest(fixed.relabelings(n_a, n_b)) == due


@pytest.mark.parametrize(
    ("n", "due"),
    [(11, "7d7a8b90694714ec"), (20, "9d0d9f70d76a9c53"), (100, "9c1c34824681d37e")],
)
def test_flips_are_the_same_for_everybody(n: int, due: str) -> None:
    assert digest(fixed.flips(n)) == due


# what they are


@pytest.mark.parametrize(("n_a", "n_b"), [(11, 11), (30, 5), (5, 30), (30, 30), (2, 700), (400, 3)])
def test_every_relabeling_deals_as_many_runs_to_each_side(n_a: int, n_b: int) -> None:
    to_b = fixed.relabelings(n_a, n_b)
    assert to_b.shape == (n_a + n_b, fixed.RELABELINGS)
    assert set(to_b.sum(axis=0)) == {n_b}


@pytest.mark.parametrize(("n_a", "n_b"), [(11, 11), (30, 5), (5, 30), (30, 30)])
def test_each_run_is_dealt_to_b_as_often_as_any_other(n_a: int, n_b: int) -> None:
    share = n_b / (n_a + n_b)
    dealt = fixed.relabelings(n_a, n_b).mean(axis=1)
    # four standard errors of a draw from the whole, which a draw by parts falls below
    assert np.abs(dealt - share).max() < 4 * math.sqrt(share * (1 - share) / fixed.RELABELINGS)


@pytest.mark.parametrize(("n_a", "n_b"), [(11, 11), (30, 5)])
def test_exchanged_runs_are_as_many_as_chance_would_have(n_a: int, n_b: int) -> None:
    gone = fixed.relabelings(n_a, n_b)[:n_a].sum(axis=0)
    for number in range(min(n_a, n_b) + 1):
        ways = math.comb(n_a, number) * math.comb(n_b, number)
        share = ways / math.comb(n_a + n_b, n_a)
        error = math.sqrt(share * (1 - share) / fixed.RELABELINGS)
        assert abs((gone == number).mean() - share) < 4 * error + 1e-3


def test_few_differences_have_all_their_flips() -> None:
    for n in range(1, 11):
        flips = fixed.flips(n)
        assert len({tuple(one) for one in flips.T}) == flips.shape[1] == 2**n - 1
        assert flips.any(axis=0).all()


@pytest.mark.parametrize("n", [11, 12, 30, 300])
def test_a_set_of_flips_turns_each_difference_in_half_of_them(n: int) -> None:
    flips = fixed.flips(n)
    assert flips.shape == (n, fixed.FLIPS)
    assert np.abs(flips.mean(axis=1) - 0.5).max() < 4 * 0.5 / math.sqrt(fixed.FLIPS)
    together = (flips[0] == flips[-1]).mean()
    assert together == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(fixed.FLIPS))
