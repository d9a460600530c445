"""What is said of a judgement is true of it, whatever the runs are."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from capsule.manifest import Margin
from capsule.verdict import wording
from tests.support.judging import NEAR, frozen, judge, metric


def test_an_only_value_is_no_plural() -> None:
    same = judge(metric(NEAR[:1]), metric(NEAR[:1]), type="exact")
    assert same.sentence == "only seed 1 has a value on both sides, and the values are equal"
    other = judge(metric([0.5]), metric([0.25]), type="exact")
    assert other.sentence.endswith("values differ; seed 1: original 0.5, re-run 0.25")


def test_an_open_claim_says_nothing_of_where_its_limits_lie() -> None:
    judgement = judge(metric(NEAR), metric([1.0, 1.3], first_seed=50), type="equivalence")
    assert judgement.word == "INCONCLUSIVE"
    assert "crosses the margin of 0.0336 (2 sd" in judgement.sentence


@pytest.mark.parametrize(
    ("values", "claim", "reason"),
    [
        ([0.5] * 4, {}, "the original's 4 runs all have the same value"),
        (
            [-0.1, 0.1],
            {"margin": Margin(relative=0.1)},
            "10 % of the original's mean, which is 0",
        ),
    ],
)
def test_a_margin_of_nothing_says_why_it_is_one(
    values: Sequence[float], claim: Mapping[str, Any], reason: str
) -> None:
    shifted = metric([value + 5 for value in values], first_seed=50)
    judgement = judge(metric(values), shifted, type="equivalence", **claim)
    assert judgement.sentence.endswith(f"the margin of 0 ({reason})")
    assert wording.region(frozen(metric(values), type="equivalence", **claim), metric(values)) == (
        f"within 0 ({reason})"
    )


def test_a_percentage_of_a_test_set_blurs_as_its_fraction_does() -> None:
    part = frozen(metric([0.9] * 3, test_set=100), type="equivalence")
    percent = metric([90.0] * 3, unit="%", test_set=100)
    assert part.upper is not None
    assert frozen(percent, type="equivalence").upper == pytest.approx(100 * part.upper)
    judgement = judge(percent, metric([90.0] * 3, first_seed=9, unit="%"), type="equivalence")
    assert (
        "lies within the margin of 3 (one standard error of 100 test examples)"
        in judgement.sentence
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (99.96, "100"),
        (2500.0, "2500"),
        (2334.4, "2334"),
        (123456.7, "123457"),
        (1234567.0, "1.23e6"),
        (0.00012345, "0.000123"),
        (0.00009, "9e-5"),
        (-0.5, "-0.5"),
        (-0.0, "0"),
        (math.inf, "unbounded"),
    ],
)
def test_numbers_are_written_for_people(value: float, shown: str) -> None:
    assert wording.number(value) == shown


@pytest.mark.parametrize(
    ("estimate", "lower", "upper", "shown"),
    [
        (0.7145, 0.00457, 111.6, ("0.715", "0.00457", "112")),
        (0.148, 1e-7, 17366.0, ("0.148", "1e-7", "17366")),
        (1.0002, 0.9999, 1.0004, ("1.0002", "0.9999", "1.0004")),
        (1.02, 0.98, 1.05, ("1.02", "0.98", "1.05")),
    ],
)
def test_a_ratio_shows_three_digits_however_wide_its_interval(
    estimate: float, lower: float, upper: float, shown: tuple[str, str, str]
) -> None:
    logs = map(math.log, (estimate, lower, upper))
    assert wording.format_interval(*logs, log=True) == shown


def test_a_difference_shows_the_digits_that_its_interval_leaves() -> None:
    assert wording.format_interval(-0.336, -5.388, 4.715, log=False) == ("-0.3", "-5.4", "4.7")
