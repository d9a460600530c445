"""The benchmark of the harness: what it compares, on a call whose time is known."""

from importlib import util

import overhead
import pytest

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here"),
]


def test_the_harness_is_compared_with_a_bare_loop_of_the_same_calls():
    made = [0]

    def counted(_):
        made[0] += 1

    row = overhead.Row("counted", counted, (None,), "f(x)", {"f": counted, "x": None})
    counts = []
    for way in (overhead.bare(row), overhead.ours(row)):
        before = made[0]
        block = way(20)
        counts.append(made[0] - before)
        assert block.recorded > 0
    assert counts == [21, 21]  # one to warm up


def test_every_row_calls_natively_what_the_harness_calls():
    for row in overhead.rows():
        assert row.names["f"] is row.call
        row.bare().timeit(1)


@pytest.mark.parametrize(
    ("native_us", "us", "percent", "missed"),
    [
        (5.0, 0.9, 18.0, False),
        (5.0, 1.2, 24.0, True),
        (20.0, 0.1, 0.5, False),
        (20.0, 0.3, 1.5, True),
        (20.0, -0.3, -1.5, True),
    ],
)
def test_a_limit_is_missed_by_more_than_the_interval(native_us, us, percent, missed):
    def near(value, reach):
        return overhead.Estimate.of([value - reach, value, value + reach] * 10)

    narrow = overhead.Compared(near(us, us / 100), near(percent, percent / 100))
    assert bool(overhead.verdict(native_us, narrow, two_sided=True)) is missed
    wide = overhead.Compared(near(us, 5.0), near(percent, 50.0))
    assert overhead.verdict(native_us, wide, two_sided=True) == []


def test_the_interval_of_a_median_is_that_of_order_statistics():
    found = overhead.Estimate.of(range(1, 102))
    # scipy.stats.quantile_test and the tables: ranks 41 and 61 of 101
    assert (found.middle, found.low, found.high) == (51, 41, 61)
