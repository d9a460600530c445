"""Where an interval lies when it ends on the border of a region, in whatever unit."""

import pytest

from capsule.stats import Region, decide, location, shift
from tests.stats.sides import known, runs


def test_an_exact_value_on_the_border_is_inside_in_any_unit() -> None:
    one = known(location(runs([1.0, 1.0]), alpha=0.05))
    assert decide(one, Region(upper=1.0)).word == "REPRODUCED"
    assert decide(one, Region(lower=1.0000001)).word == "DIFFERENT"
    for unit in (0.01, 1.0):
        a, b = runs([75.9 * unit] * 3), runs([76.4 * unit] * 3)
        margin = 0.5 * unit
        exact = known(shift(a, b, alpha=0.05))
        assert decide(exact, Region(lower=-margin, upper=margin)).word == "REPRODUCED"


def test_an_interval_that_ends_on_the_border_is_neither_inside_nor_outside() -> None:
    interval = known(shift(runs([1.0, 2.0, 3.0]), runs([1.0, 2.5, 3.0]), alpha=0.05))
    ends = interval.lower, interval.upper
    for nudge in (-1e-13, 0.0, 1e-13):
        lower, upper = (end * (1 + nudge) for end in ends)
        for region in (
            Region(lower=lower), Region(upper=upper), Region(lower=upper), Region(upper=lower)
        ):  # fmt: skip
            assert decide(interval, region).word == "INCONCLUSIVE"
    assert (
        decide(interval, Region(lower=ends[0] * 1.001, upper=ends[1] * 1.001)).word == "REPRODUCED"
    )


@pytest.mark.parametrize("unit", [0.01, 0.1, 1.0, 3.0, 1e-7, 1e9])
def test_counts_on_a_whole_step_have_one_word_in_every_unit(unit: float) -> None:
    a, b = [18, 19, 19, 20, 21, 18, 20], [19, 19, 20, 20, 18, 21, 19]
    for margin in (1, 2, 3):
        words = []
        for factor in (1.0, unit):
            sides = (runs([value * factor for value in side]) for side in (a, b))
            region = Region(lower=-margin * factor, upper=margin * factor)
            words.append(decide(known(shift(*sides, alpha=0.05)), region).word)
        assert words[0] == words[1]
