"""Intervals and decisions by their formulas, written down again with scipy."""

import math

import pytest
import scipy.stats
from scipy.stats import t

from capsule.stats import interval
from capsule.stats.decision import Region, decide
from capsule.stats.interval import Interval, Method
from capsule.stats.runs import Runs
from tests.stats.sides import known

VALUES = (1.0, 1.5, 2.5, 4.0)
OTHERS = (2.0, 2.25, 3.5)


def runs(values: tuple[float, ...], first: int = 0) -> Runs:
    return Runs.of(dict(enumerate(values, first)))


def made(method: Method = "welch", **changes: float) -> Interval:
    """An interval of three standard errors each way around 1."""
    facts = {"estimate": 1.0, "standard_error": 0.5, "df": 7.0, "lower": -0.5, "upper": 2.5}
    return Interval(**{**facts, "alpha": 0.05, "magnitude": 2.0, **changes}, method=method)


# decisions


def test_a_region_may_have_no_width_and_no_less() -> None:
    assert Region(lower=1.0, upper=1.0).lower == 1.0
    assert Region() == Region(lower=-math.inf, upper=math.inf)
    with pytest.raises(ValueError, match="invalid region"):
        Region(lower=1.0, upper=math.nextafter(1.0, 0.0))


@pytest.mark.parametrize(("lower", "upper"), [(-1.0, 3.0), (-0.5, 1.5), (2.0, 4.0), (-3.0, -1.0)])
def test_p_values_are_those_of_students_distribution(lower: float, upper: float) -> None:
    for one in (made(), made(df=3.0, standard_error=0.25)):
        found = decide(one, Region(lower=lower, upper=upper))
        above = (1.0 - lower) / one.standard_error, (1.0 - upper) / one.standard_error
        assert found.p_reproduced == pytest.approx(
            max(t.sf(above[0], one.df), t.cdf(above[1], one.df))
        )
        different = min(t.cdf(above[0], one.df), t.sf(above[1], one.df))
        assert found.p_different == pytest.approx(different)
        doubled = decide(
            made("prediction", df=one.df, standard_error=one.standard_error),
            Region(lower=lower, upper=upper),
        )
        assert doubled.p_different == pytest.approx(min(1.0, 2 * different))


@pytest.mark.parametrize(
    ("region", "word"),
    [
        (Region(lower=-0.6, upper=2.6), "REPRODUCED"),
        (Region(upper=2.6), "REPRODUCED"),
        (Region(lower=-0.6), "REPRODUCED"),
        (Region(lower=-0.5, upper=2.6), "INCONCLUSIVE"),
        (Region(lower=-0.6, upper=2.5), "INCONCLUSIVE"),
        (Region(upper=-0.5), "INCONCLUSIVE"),
        (Region(upper=-0.6), "DIFFERENT"),
        (Region(lower=2.5), "INCONCLUSIVE"),
        (Region(lower=2.6), "DIFFERENT"),
        # a part in 1e9 of the margin is on it
        (Region(lower=-0.5 - 4e-10, upper=2.6), "INCONCLUSIVE"),
        (Region(lower=-0.5 - 6e-10, upper=2.6), "REPRODUCED"),
        (Region(upper=-0.5 - 4e-10), "INCONCLUSIVE"),
        (Region(upper=-0.5 - 6e-10), "DIFFERENT"),
    ],
)
def test_the_word_is_where_the_interval_lies(region: Region, word: str) -> None:
    assert decide(made(), region).word == word


def test_what_rounding_makes_of_large_values_is_no_distance() -> None:
    far = made(magnitude=1e12)
    assert decide(far, Region(lower=-1.4, upper=3.4)).word == "INCONCLUSIVE"
    assert decide(far, Region(lower=-1.6, upper=3.6)).word == "REPRODUCED"


@pytest.mark.parametrize(("p", "word"), [(0.04, "DIFFERENT"), (0.06, "INCONCLUSIVE")])
def test_a_single_run_differs_at_half_the_level(p: float, word: str) -> None:
    beyond = 1.0 + 0.5 * float(t.isf(p / 2, 7))
    one = made("prediction", upper=beyond - 0.01)
    found = decide(one, Region(lower=beyond))
    assert found.word == word
    assert found.p_different == pytest.approx(p)


@pytest.mark.parametrize(
    ("estimate", "word"), [(2.0, "REPRODUCED"), (-2.0, "REPRODUCED"), (2.1, "DIFFERENT")]
)
def test_what_has_no_error_is_inside_or_outside(estimate: float, word: str) -> None:
    exact = made("exact", estimate=estimate, standard_error=0.0, lower=estimate, upper=estimate)
    found = decide(exact, Region(lower=-2.0, upper=2.0))
    same = float(word == "REPRODUCED")
    assert (found.word, found.p_reproduced, found.p_different) == (word, 1 - same, same)


def test_what_has_no_error_is_inside_on_the_border() -> None:
    zero = {"estimate": 0.0, "lower": 0.0, "upper": 0.0, "magnitude": 0.0, "standard_error": 0.0}
    for region in (Region(lower=0.0), Region(upper=0.0), Region(lower=0.0, upper=0.0)):
        assert decide(made("exact", **zero), region).word == "REPRODUCED"


# intervals


def test_runs_that_are_too_few_tell_no_interval() -> None:
    one, two = runs(VALUES[:1]), runs(VALUES[:2])
    assert interval.shift(one, one, alpha=0.05) is None
    assert interval.location(one, alpha=0.05) is None
    assert interval.paired_shift(one, alpha=0.05) is None
    for sides in ((one, two), (two, one)):
        assert known(interval.shift(*sides, alpha=0.05)).method == "prediction"
    assert interval.location(two, alpha=0.05) is not None
    assert interval.paired_shift(two, alpha=0.05) is not None


@pytest.mark.parametrize(("a", "b"), [(VALUES, (2.0,)), ((2.0,), VALUES)])
def test_a_single_run_has_the_prediction_interval_at_a_quarter(
    a: tuple[float, ...], b: tuple[float, ...]
) -> None:
    found = known(interval.shift(runs(a), runs(b, 50), alpha=0.05))
    many = a if len(a) > 1 else b
    error = float(scipy.stats.tstd(many)) * math.sqrt(1 + 1 / len(many))
    estimate = sum(b) / len(b) - sum(a) / len(a)
    reach = float(t.isf(0.05 / 4, len(many) - 1)) * error
    assert (found.method, found.alpha, found.df) == ("prediction", 0.0125, len(many) - 1)
    assert (found.estimate, found.standard_error) == pytest.approx((estimate, error))
    assert (found.lower, found.upper) == pytest.approx((estimate - reach, estimate + reach))
    assert found.magnitude == 4.0


def test_few_runs_that_nothing_guards_have_half_the_level() -> None:
    a, b = VALUES[:2], OTHERS[:2]
    found = known(interval.shift(runs(a), runs(b, 50), alpha=0.05))
    assert (found.method, found.alpha) == ("welch", 0.025)
    limits = scipy.stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    assert (found.lower, found.upper) == pytest.approx((limits.low, limits.high))
    assert found.magnitude == 2.25


def test_the_guard_widens_welchs_interval() -> None:
    a, b = (0.0, 0.1, 0.2, 5.0), (0.0, 0.1, 0.3, 0.2)
    plain = scipy.stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.9)
    found = known(interval.shift(runs(a), runs(b, 50), alpha=0.05))
    ranked = known(interval.shift(runs(a), runs(b, 50), alpha=0.05, relabel=False))
    assert {found.method, ranked.method} == {"envelope"}
    for one in (found, ranked):
        assert one.lower <= plain.low + 1e-9
        assert one.upper >= plain.high - 1e-9
    assert (found.lower, found.upper) != (ranked.lower, ranked.upper)


def test_constants_have_no_error() -> None:
    same = known(interval.shift(runs((2.0, 2.0)), runs((3.0, 3.0), 50), alpha=0.05))
    assert (same.method, same.standard_error, same.df) == ("exact", 0.0, math.inf)
    assert (same.lower, same.upper, same.alpha, same.magnitude) == (1.0, 1.0, 0.05, 3.0)
    for alone in (interval.location, interval.paired_shift):
        one = known(alone(runs((2.0, 2.0)), alpha=0.04))
        assert (one.method, one.alpha, one.lower) == ("exact", 0.04, 2.0)


@pytest.mark.parametrize("method", ["one-sample", "paired"])
def test_one_set_of_values_has_students_interval_at_its_part_of_the_level(method: str) -> None:
    judge = interval.location if method == "one-sample" else interval.paired_shift
    found = known(judge(runs(VALUES), alpha=0.06))
    error = float(scipy.stats.sem(VALUES))
    reach = float(t.isf(0.01, 3)) * error
    assert (found.method, found.df) == (method, 3)
    assert found.alpha == pytest.approx(0.01)
    assert (found.estimate, found.standard_error) == pytest.approx((2.25, error))
    assert (found.lower, found.upper) == pytest.approx((2.25 - reach, 2.25 + reach))


@pytest.mark.parametrize("n", [20, 50, 400])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_the_level_of_one_set_errs_alpha_by_edgeworths_first_term(n: int, alpha: float) -> None:
    level = interval.one_set(n, alpha)
    z = scipy.stats.norm.ppf(level)
    error = level + 3 / (6 * math.sqrt(n)) * (2 * z * z + 1) * scipy.stats.norm.pdf(z)
    if level > alpha / 6:
        assert error == pytest.approx(alpha, rel=1e-6)
        assert interval.undo_one_set(n, level) == pytest.approx(alpha, rel=1e-6)
    else:
        assert error >= alpha


def test_few_values_have_a_sixth_of_the_level() -> None:
    assert [interval.one_set(n, 0.06) for n in (2, 5, 9)] == pytest.approx([0.01] * 3)
    assert interval.undo_one_set(5, 0.01) == pytest.approx(0.06)


def test_degrees_of_freedom_are_satterthwaites() -> None:
    error, df = interval.welch(runs(VALUES), runs(OTHERS, 50))
    parts = [scipy.stats.tvar(side) / len(side) for side in (VALUES, OTHERS)]
    assert error == pytest.approx(math.sqrt(sum(parts)))
    assert df == pytest.approx(sum(parts) ** 2 / (parts[0] ** 2 / 3 + parts[1] ** 2 / 2))
    assert interval.welch(runs((1.0, 1.0)), runs((2.0, 2.0))) == (0.0, math.inf)


def test_the_largest_value_may_be_on_any_side_and_of_any_sign() -> None:
    assert interval.largest(runs((-9.0, 1.0)), runs((2.0, 3.0))) == 9.0
    assert interval.largest(runs((1.0, 2.0)), runs((2.0, 8.0))) == 8.0
