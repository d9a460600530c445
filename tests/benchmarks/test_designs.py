"""Designs of the acceptance table: which there are, and that those without a row have no rate."""

import dataclasses
from itertools import combinations

import designs
import populations
import pytest

FACTORS = ("claim", "n_a", "n_b", "claims", "looks", "sides", "sign")
VALUES = {
    "claim": designs.TYPES,
    "n_a": designs.RUNS,
    "n_b": designs.RUNS,
    "claims": designs.CLAIMS,
    "looks": designs.LOOKS,
    "sides": (*designs.ALIKE, *designs.UNLIKE),
    "sign": designs.SIGNS,
}
COVERING = designs.covering()


def test_each_two_values_of_two_factors_meet_in_a_cell() -> None:
    for one, other in combinations(FACTORS, 2):
        met = {(getattr(cell, one), getattr(cell, other)) for cell in COVERING}
        assert met == {(x, y) for x in VALUES[one] for y in VALUES[other]}, (one, other)


def test_real_populations_meet_in_each_order() -> None:
    assert len(populations.REAL) == 10
    assert {name.partition(" ")[0] for name in populations.REAL} == {"cosmoflow", "deepcam"}
    assert len(designs.UNLIKE) == 90


@pytest.mark.parametrize("reason", designs.UNCOVERED)
def test_a_design_without_a_row_prints_no_rate(reason: str) -> None:
    assert designs.Uncovered(reason).measure(20) == {"printed": 0.0}


def test_a_like_design_prints_one() -> None:
    cell = designs.Design("equivalence", 10, 5, 1, "one look", ("normal", "normal"))
    assert cell.measure(40)["printed"] > 60


@pytest.mark.parametrize("claim", designs.TYPES)
def test_designs_can_be_judged_and_have_a_rate_only_where_few_are_claimed(claim: str) -> None:
    cell = designs.Design(claim, 5, 5, 1, "default looks", ("normal", "normal"))
    figures = cell.measure(10)
    assert figures["printed"] > 0
    assert figures["REPRODUCED"] <= 40
    assert figures["DIFFERENT"] <= 40
    many = dataclasses.replace(cell, claims=20, looks="one look").measure(2)
    is_one_set = claim in ("threshold", "published", "paired")
    assert (many["printed"] == 0) == is_one_set
