"""When `benchmarks/statistics/verdicts.py` calls a row missed, and what its quick table has."""

import acceptance
import scipy.stats
import verdicts
from cells import Equivalence


def test_a_row_misses_where_the_interval_of_its_figure_lies_beyond_its_limit() -> None:
    row = next(one for one in acceptance.rows() if one.limit == 5.5)
    for repetitions in (200, 1000):
        for count in range(repetitions // 5):
            p = scipy.stats.binomtest(count, repetitions).proportion_ci(0.95).low
            assert row.keeps(100 * count / repetitions, repetitions) == (100 * p <= 5.5)


def test_the_quick_table_leaves_out_what_counts_many_relabelings() -> None:
    kept = [verdicts.in_quick(Equivalence(n, n, "normal", 2.0)) for n in (3, 6, 7, 10)]
    assert kept == [True, True, False, False]
    # ranks guard these: nothing is relabeled
    assert verdicts.in_quick(Equivalence(30, 30, "normal", 2.0))
