"""What a trial reports while it runs: values, points and clocks, and what is no report."""

import math
from typing import Any

import pytest

from capsule.levels.journal import Samples
from capsule.levels.report import Report


class Clock:
    """Nanoseconds that pass in `wait` alone."""

    def __init__(self) -> None:
        self.now = 10**12

    def __call__(self) -> int:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)


Lines = list[Samples]


@pytest.fixture
def lines() -> Lines:
    return []


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def report(lines: Lines, clock: Clock) -> Report:
    return Report(lines.append, clock)


def test_values_are_there_as_soon_as_they_are_reported(report: Report, lines: Lines) -> None:
    report.samples("time", [3, 1.0], warmup=1)
    assert lines == [Samples("time", (3.0, 1.0), 1)]
    report.samples("loss", iter([0.5]))
    report.samples("time", (2.0,))
    assert lines[1:] == [Samples("loss", (0.5,)), Samples("time", (2.0,))]


def test_points_have_both_clocks(report: Report, lines: Lines, clock: Clock) -> None:
    clock.wait(1)
    report.point("loss", 1, 8.0)
    clock.wait(2)
    with report.pause():
        clock.wait(10)
        report.point("accuracy", 1, 0.25)
        clock.wait(10)
    clock.wait(0.5)
    report.point("loss", 2.5, 4.0)
    assert lines == [
        Samples("loss", (8.0,), 0, (1.0,), (1.0,), (1.0,)),
        Samples("accuracy", (0.25,), 0, (1.0,), (13.0,), (3.0,)),
        Samples("loss", (4.0,), 0, (2.5,), (23.5,), (3.5,)),
    ]


def test_pauses_may_be_nested_and_end_with_an_exception(
    report: Report, lines: Lines, clock: Clock
) -> None:
    with report.pause():
        clock.wait(1)
        with pytest.raises(KeyError), report.pause():
            clock.wait(1)
            raise KeyError
        clock.wait(1)
    clock.wait(4)
    report.point("loss", 1, 1.0)
    assert (lines[0].wall, lines[0].active) == ((7.0,), (4.0,))


def test_the_time_that_a_report_takes_is_not_active(lines: Lines, clock: Clock) -> None:
    def write_slowly(samples: Samples) -> None:
        clock.wait(5)
        lines.append(samples)

    report = Report(write_slowly, clock)
    report.samples("time", [1.0])
    with report.pause():
        report.samples("time", [1.0])
    clock.wait(1)
    report.point("loss", 1, 1.0)
    assert (lines[-1].wall, lines[-1].active) == ((11.0,), (1.0,))


@pytest.mark.parametrize("step", [3, 2, -1, 3.0])
def test_a_step_that_is_not_beyond_the_last_is_refused(
    report: Report, lines: Lines, step: float
) -> None:
    report.point("loss", 3, 1.0)
    with pytest.raises(ValueError, match=f"loss was reported at step {step:g} after step 3"):
        report.point("loss", step, 1.0)
    report.point("loss", 4, 1.0)
    report.point("other", step, 1.0)
    assert [line.steps for line in lines] == [(3.0,), (4.0,), (step,)]


@pytest.mark.parametrize("step", [math.nan, math.inf, -math.inf])
def test_a_step_is_a_finite_number(report: Report, lines: Lines, step: float) -> None:
    with pytest.raises(ValueError, match=f"loss was reported at step {step}"):
        report.point("loss", step, 1.0)
    assert lines == []


def test_a_metric_has_steps_or_none(report: Report, lines: Lines) -> None:
    report.point("loss", 0, 1.0)
    report.samples("time", [1.0])
    with pytest.raises(
        ValueError, match="loss was reported without a step after values with steps"
    ):
        report.samples("loss", [1.0])
    with pytest.raises(
        ValueError, match="time was reported with a step after values without steps"
    ):
        report.point("time", 1, 1.0)
    assert len(lines) == 2


def test_the_warm_up_comes_with_the_first_values_and_leaves_some(
    report: Report, lines: Lines
) -> None:
    report.samples("time", [3.0, 1.0], warmup=1)
    with pytest.raises(
        ValueError, match=r"time was reported with .* warm-up values after its first report"
    ):
        report.samples("time", [3.0, 1.0], warmup=1)
    for warmup in (-1, 1, 2):
        message = f"loss was reported with 1 values and warmup {warmup}, expected a warmup from 0"
        with pytest.raises(ValueError, match=message):
            report.samples("loss", [1.0], warmup=warmup)
    assert len(lines) == 1


def test_no_values_are_no_report(report: Report, lines: Lines) -> None:
    with pytest.raises(ValueError, match="time was reported without a value"):
        report.samples("time", [])
    # and so the first that are may bring a warm-up
    report.samples("time", [2.0, 1.0], warmup=1)
    assert len(lines) == 1


@pytest.mark.parametrize("value", ["fast", None])
def test_what_is_no_number_is_no_value(report: Report, lines: Lines, value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        report.samples("time", [1.0, value])
    with pytest.raises((TypeError, ValueError)):
        report.point("loss", 1, value)
    report.point("loss", 1, 1.0)
    assert len(lines) == 1


def test_values_that_are_not_finite_are_handed_on_and_remembered(
    report: Report, lines: Lines
) -> None:
    report.samples("time", [1.0, math.inf])
    report.point("loss", 1, 1.0)
    assert list(report.non_finite) == ["time"]
    report.point("loss", 2, math.nan)
    report.point("loss", 3, 1.0)
    report.samples("time", [math.nan])
    assert list(report.non_finite) == ["time", "loss"]
    assert len(lines) == 5


def test_nothing_is_reported_after_the_end(report: Report, lines: Lines) -> None:
    report.samples("time", [1.0])
    report.close()
    with pytest.raises(RuntimeError, match="time was reported after the end of its trial"):
        report.samples("time", [1.0])
    with pytest.raises(RuntimeError, match="loss was reported after the end of its trial"):
        report.point("loss", 1, 1.0)
    assert len(lines) == 1


@pytest.mark.parametrize("name", ["steps", "wall", "active"])
@pytest.mark.parametrize("column", [(), (1.0,), (1.0, 2.0, 3.0)])
def test_what_belongs_to_values_is_as_long_as_they_are(
    name: str, column: tuple[float, ...]
) -> None:
    columns: dict[str, Any] = {name: column}
    with pytest.raises(
        ValueError, match=f"loss was reported with 2 values and {len(column)} entries in {name}"
    ):
        Samples("loss", (1.0, 2.0), **columns)
