"""One value per run and metric: medians after warm-up, and nothing planned drops out of sight."""

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from capsule import averages, digest, reduction, summary
from capsule.manifest import Aggregate
from capsule.record import Record
from capsule.series import pack
from tests.support.records import LOSS, SEEDS, STEP_TIME, make_attempt, make_record

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


def test_a_run_is_the_median_after_the_warm_up() -> None:
    times = dict.fromkeys(SEEDS, (9.0, 1.0, 4.0, 2.0, 3.0))
    runs = summary.run_values(make_record(step_times=times))[STEP_TIME]
    assert runs.values == (2.5,) * len(SEEDS)
    assert (runs.unit, runs.direction, runs.kind) == ("s", "lower", "machine")


def test_runs_are_sorted_by_seed_whatever_ran_first() -> None:
    record = make_record(seeds=(30, 10, 20), fresh=(10,))
    runs = summary.run_values(record)[LOSS].runs
    assert [(run.seed, run.seed_source) for run in runs] == [
        (10, "fresh"),
        (20, "manifest"),
        (30, "manifest"),
    ]


def test_a_failed_trial_is_a_failed_run_of_each_metric() -> None:
    metrics = summary.run_values(make_record(failed=(18,)))
    assert set(metrics) == {LOSS, STEP_TIME}
    for runs in metrics.values():
        assert [run.status for run in runs.runs] == ["ok", "failed", "ok", "ok", "ok"]
        assert len(runs.values) == 4


def test_a_failed_run_tells_which_metric_is_not_finite() -> None:
    record = make_record(failed=(18,))
    line = next(line for line in record.samples if line.seed == 17 and line.metric == LOSS)
    broken = dataclasses.replace(
        line, trial=line.trial.replace("17", "18"), seed=18, values=(0.5, -math.inf, math.nan)
    )
    metrics = summary.run_values(dataclasses.replace(record, samples=(*record.samples, broken)))
    assert [run.not_finite for run in metrics[LOSS].runs] == [None, -math.inf, None, None, None]
    assert {run.not_finite for run in metrics[STEP_TIME].runs} == {None}


def test_a_trial_without_an_outcome_is_a_missing_run() -> None:
    record = make_record(seeds=(1, 2))
    record = dataclasses.replace(
        record,
        attempts=(make_attempt(1, outcome="interrupted", reason="walltime"),),
        samples=(),
    )
    runs = summary.run_values(record)[LOSS].runs
    assert [run.status for run in runs] == ["missing", "missing"]


def test_only_the_attempt_that_settled_a_trial_counts() -> None:
    record = make_record(seeds=(1,), losses={1: 5.0})
    earlier = dataclasses.replace(record.samples[0], values=(99.0,))
    later = [dataclasses.replace(line, attempt=2) for line in record.samples]
    record = dataclasses.replace(
        record,
        attempts=(
            make_attempt(1, outcome="interrupted", reason="lost"),
            make_attempt(1, attempt=2),
        ),
        samples=(earlier, *later),
    )
    assert summary.run_values(record)[LOSS].values == (5.0,)


def test_the_document_does_not_depend_on_the_order_of_execution() -> None:
    losses = dict(zip(SEEDS, (1e16, 1.0, -1e16, 3.0, 0.1), strict=True))
    forward = summary.metrics_document(make_record(losses=losses))
    backward = summary.metrics_document(make_record(seeds=SEEDS[::-1], losses=losses))
    assert digest.of_json(forward) == digest.of_json(backward)
    assert forward["metrics"][LOSS]["mean"] == 4.1 / 5


def test_a_mean_that_overflows_is_null() -> None:
    losses = dict.fromkeys(SEEDS, 1.7e308)
    assert summary.metrics_document(make_record(losses=losses))["metrics"][LOSS]["mean"] is None


@given(st.lists(finite, min_size=1, max_size=20))
def test_the_mean_is_the_exact_sum_rounded_once_then_divided(values: Sequence[float]) -> None:
    record = make_record(seeds=tuple(range(len(values))), losses=dict(enumerate(values)))
    mean = summary.metrics_document(record)["metrics"][LOSS]["mean"]
    total = sum(map(Fraction, values))
    if mean is not None:
        assert mean == float(total) / len(values)


@given(st.lists(finite, max_size=20))
def test_the_median_is_that_of_the_standard_library(values: Sequence[float]) -> None:
    median = averages.median(values)
    expected = statistics.median(values) if values else math.nan
    assert median == expected if math.isfinite(expected) else median is None


@given(st.lists(finite), st.sampled_from([math.nan, math.inf, -math.inf]))
def test_what_is_not_finite_has_no_median(values: Sequence[float], bad: float) -> None:
    assert averages.median([*values, bad]) is None


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=9))
def test_many_values_have_the_median_of_few(values: list[float]) -> None:
    many = values * (60_000 // len(values))
    assert averages.median(many) == statistics.median(many)
    assert averages.median([*many, math.nan]) is None


@given(st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.0, math.inf]), min_size=501, max_size=600))
def test_who_finds_a_median_changes_no_bit_of_it(values: Sequence[float]) -> None:
    assert repr(averages.median(values, few=500)) == repr(averages.median(values))


def test_a_record_of_many_values_has_the_medians_of_each() -> None:
    times = {seed: tuple(float(seed * n % 9973) for n in range(1, 11_001)) for seed in SEEDS}
    runs = summary.run_values(make_record(step_times=times))[STEP_TIME]
    assert runs.values == tuple(statistics.median(times[seed][1:]) for seed in SEEDS)


@given(st.lists(st.floats(), max_size=5))
def test_values_are_finite_when_each_is(values: Sequence[float]) -> None:
    assert averages.finite(values) == all(map(math.isfinite, values))


def test_a_record_made_from_another_has_runs_of_its_own() -> None:
    record = make_record()
    before = summary.run_values(record)
    other = dataclasses.replace(record, samples=())
    assert summary.run_values(other)[LOSS].values == ()
    assert summary.run_values(record) == before


# curves, and runs that are one and the same


def with_samples(
    record: Record,
    metric: str,
    values: Mapping[int, tuple[float, ...]],
    steps: tuple[float, ...] | None = None,
) -> Record:
    """The record with the values of a metric replaced, by seed."""
    lines = [
        dataclasses.replace(line, values=values[line.seed], steps=steps, warmup=0)
        if line.metric == metric and line.seed in values
        else line
        for line in record.samples
    ]
    return dataclasses.replace(record, samples=tuple(lines))


def trajectories(record: Record, metric: str = LOSS) -> list[int | None]:
    return [run.trajectory for run in summary.run_values(record)[metric].runs]


def test_a_curve_has_its_last_value() -> None:
    curve = dict.fromkeys(SEEDS, (9.0, 1.0, 4.0, 2.0))
    record = with_samples(make_record(), LOSS, curve, steps=(0.0, 1.0, 2.0, 5.0))
    assert summary.run_values(record)[LOSS].values == (2.0,) * len(SEEDS)


def test_runs_with_the_same_curve_are_one_trajectory() -> None:
    curves = {seed: (3.0, 2.0, seed * 0.1) for seed in SEEDS} | dict.fromkeys((18, 20), (3.0, 1.5))
    record = with_samples(make_record(), LOSS, curves)
    assert trajectories(record) == [None, 18, None, 18, None]


def test_a_constant_or_single_value_says_nothing_of_its_run() -> None:
    for values in ((1.0,), (1.0, 1.0, 1.0)):
        record = with_samples(make_record(), LOSS, dict.fromkeys(SEEDS, values))
        assert trajectories(record) == [None] * len(SEEDS)


def test_few_counts_in_a_row_may_agree_by_chance_and_many_do_not() -> None:
    def count(values: tuple[float, ...]) -> list[int | None]:
        record = with_samples(make_record(), LOSS, dict.fromkeys(SEEDS, values))
        lines = [dataclasses.replace(line, resolution=1.0) for line in record.samples]
        return trajectories(dataclasses.replace(record, samples=tuple(lines)))

    assert count((1.0, 2.0, 1.0)) == [None] * len(SEEDS)
    assert count((1.0, 2.0, 5.0, 3.0, 9.0)) == [17] * len(SEEDS)


def test_what_a_machine_repeats_is_no_trajectory() -> None:
    times = dict.fromkeys(SEEDS, (0.1, 0.2, 0.3))
    assert trajectories(make_record(step_times=times), STEP_TIME) == [None] * len(SEEDS)


PLACES = st.sampled_from([0.0, -0.0, 1.0, 5e-324, -5e-324, 1.7e308, math.inf, -math.inf, math.nan])


@st.composite
def tables(draw: st.DrawFn) -> list[Sequence[float]]:
    """Series of one length, long enough together for numpy, with zeros, infinities and ties."""
    length = draw(st.integers(min_value=17, max_value=40))
    random = np.random.default_rng(draw(st.integers(min_value=0, max_value=2**32)))
    scale = draw(st.sampled_from([1e-310, 1.0, 5e307]))
    table = random.integers(-3, 4, (40, length)) * draw(st.sampled_from([1.0, 0.1])) * scale
    table[::3] = random.normal(0, scale / 10, table[::3].shape)
    for row in range(0, 40, 2):
        table[row, random.integers(0, length, 3)] = draw(PLACES)
    return [pack(row) for row in table.tolist()]


@settings(max_examples=40)
@given(tables(), st.booleans())
def test_medians_of_many_series_are_those_of_each(
    table: list[Sequence[float]], uneven: bool
) -> None:
    if uneven:
        table[5] = pack(table[5][1:])
    expected = [averages.median(row) for row in table]
    assert list(map(repr, averages.medians(table))) == list(map(repr, expected))
    assert averages.medians([]) == []
    assert averages.medians([pack([]), pack([])]) == [None, None]


@settings(max_examples=40)
@given(tables(), st.integers(min_value=0, max_value=17))
def test_values_of_many_runs_are_those_of_each(table: list[Sequence[float]], warmup: int) -> None:
    line = make_record().samples[0]
    runs = [
        (dataclasses.replace(line, steps=None, per="call", values=row, warmup=warmup),)
        for row in table
    ]
    curve = dataclasses.replace(line, steps=pack(range(17)), values=table[0][:17])
    nodes = dataclasses.replace(runs[0][0], per="node")
    for several in (runs, runs * 4, [*runs, (curve,), (), (nodes,), (runs[0][0], runs[1][0])]):
        values = list(reduction.run_values_of(several))
        assert list(map(repr, values)) == [repr(reduction.run_value(run)) for run in several]


def test_an_author_may_choose_what_a_value_is_of_several() -> None:
    values = (1.0, 2.0, 9.0)
    line = make_record(step_times=dict.fromkeys(SEEDS, (5.0, *values))).samples
    (samples,) = [one for one in line if one.metric == STEP_TIME][:1]
    ways: Mapping[Aggregate, float] = {"mean": 4.0, "median": 2.0, "min": 1.0, "max": 9.0}
    for way, value in ways.items():
        assert reduction.run_value([samples], aggregate=way) == value
        curve = dataclasses.replace(samples, steps=(0, 1, 2, 3))
        assert reduction.run_value([curve], aggregate=way) == value
        other = dataclasses.replace(samples, rank=1, values=(5.0, value, value, value))
        assert reduction.run_value([samples, other], aggregate=way) == value
        bad = dataclasses.replace(samples, values=(5.0, 1.0, math.nan))
        assert reduction.run_value([bad], aggregate=way) is None
    assert list(reduction.run_values_of([(samples,)] * 200, aggregate="mean")) == [4.0] * 200
