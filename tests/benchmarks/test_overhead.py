"""The benchmark of the harness: what it compares, on a call whose time is known."""

from importlib import util

import overhead
import pytest

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here"),
]


def test_the_harness_is_compared_with_a_bare_loop_of_the_same_calls() -> None:
    made = [0]

    def counted(_: None) -> None:
        made[0] += 1

    row = overhead.Row("counted", counted, (None,), "f(x)", {"f": counted, "x": None})
    counts = []
    for way in (overhead.bare(row), overhead.ours(row)):
        before = made[0]
        block = way(20)
        counts.append(made[0] - before)
        assert block.recorded > 0
    assert counts == [21, 21]  # one to warm up


def test_every_row_calls_natively_what_the_harness_calls() -> None:
    for row in overhead.rows():
        assert row.names["f"] is row.call
        row.bare().timeit(1)


def near(value: float, reach: float) -> overhead.Estimate:
    return overhead.Estimate.of([value - reach, value, value + reach] * 10)


def compared(us: float, percent: float, *, wide: bool = False) -> overhead.Compared:
    """What is measured in an interval of a hundredth, or in one that holds everything."""
    reaches = (5.0, 50.0) if wide else (us / 100, percent / 100)
    return overhead.Compared(near(us, reaches[0]), near(percent, reaches[1]))


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
def test_a_limit_is_missed_by_more_than_the_interval(
    native_us: float, us: float, percent: float, missed: bool
) -> None:
    assert bool(overhead.judge_corrected(native_us, compared(us, percent))) is missed
    assert overhead.judge_corrected(native_us, compared(us, percent, wide=True)) == []


@pytest.mark.parametrize(("us", "missed"), [(0.2, False), (1.2, True)])
def test_what_is_added_has_a_limit_of_its_own(us: float, missed: bool) -> None:
    assert bool(overhead.judge_added(compared(us, 10 * us))) is missed
    assert overhead.judge_added(compared(us, 10 * us, wide=True)) == []


def test_an_empty_call_is_measured_beside_each_block() -> None:
    row = overhead.Row("nothing", lambda _: None, (None,), "f(x)", {"f": lambda _: None, "x": 1})
    block = overhead.ours(row)(20)
    assert block.empty > 0


def test_the_interval_of_a_median_is_that_of_order_statistics() -> None:
    estimate = overhead.Estimate.of(range(1, 102))
    # scipy.stats.quantile_test and the tables: ranks 41 and 61 of 101
    assert (estimate.middle, estimate.low, estimate.high) == (51, 41, 61)
