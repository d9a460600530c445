"""Gradients against differences of the formula, next to a kink."""

import math
from typing import Any

import numpy
import pytest

from capsule.levels import frameworks
from capsule.levels.instruments import errors
from tests.support import trials

H, SLOPE, BEND = 1e-6, 3.0, 0.5


def judge(gradient: float, kink: float, bound: float = 1e-9) -> float:
    """Of a straight line that is bent at `kink` > 0, at 0."""

    def scalar(moved: list[Any]) -> tuple[float, float]:
        x = float(moved[0][0])
        value = 1 + SLOPE * x + BEND * max(x - kink, 0.0)
        return value, 2.0

    return errors.derivatives(
        scalar,
        [numpy.zeros(1)],
        (numpy.array([gradient]),),
        (bound,),
        lambda size, slope: H,
        "test",
    )


@pytest.mark.parametrize("share", [0.9, 0.5, 0.1, 1 / 30, 1 / 300])
def test_a_right_gradient_stays_right_however_near_a_kink_is(share: float) -> None:
    assert judge(SLOPE, share * H) < 1


@pytest.mark.parametrize("share", [0.5, 0.1, 1 / 30, 1 / 300])
@pytest.mark.parametrize("wrong", [SLOPE + BEND, SLOPE - BEND, 2 * SLOPE, -SLOPE, 0.0])
def test_a_wrong_one_stays_wrong(wrong: float, share: float) -> None:
    assert judge(wrong, share * H) > 1


def test_what_is_wrong_without_a_kink_is_as_wrong_as_it_was() -> None:
    off = 0.01
    allowed = 1e-9 + 64 * errors.ROUNDOFF * 2.0 / H
    assert judge(SLOPE + off, 1.0) == pytest.approx(off / allowed, rel=0.1)


def test_what_is_not_a_number_is_told() -> None:
    assert math.isnan(judge(math.nan, 1.0))


def test_a_right_network_next_to_a_kink_is_right() -> None:
    """Of this seed the random direction crosses one at a thirtieth of the step."""
    sizes = {"batch": 4, "side": 16, "width": 4, "layers": 2, "latent": 8}
    framework = frameworks.load("numpy", "cpu", 1, "default")
    reported = trials.values(
        framework, seed=1932509556, network="cosmogan", dtype="float32", parameters=sizes
    )
    assert reported["gradient_check"][0] < 1
