"""Reading the journal in which a workload says what it measures."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from capsule.execute import journal
from capsule.execute.reports import Window, merge
from tests.support.journal_events import (
    HELLO,
    METRICS,
    ONE,
    TWO,
    Event,
    begin,
    curve,
    encode,
    end,
    point,
    read,
    samples,
    trial,
    whole,
)
from tests.support.properties import examples


def test_a_sound_journal_is_read_whole(tmp_path: Path) -> None:
    merged = read(tmp_path, [*whole(ONE), *whole(TWO), {"event": "bye"}])
    assert merged.defect is None
    assert merged.software == {"python": "3.11"}
    assert [report.outcome for report in merged.reports] == ["completed", "completed"]
    loss, time = merged.reports[0].series
    assert loss.values == (0.5,)
    assert (time.values, time.warmup) == ((3.0, 1.0), 1)


def test_a_journal_that_was_never_written_is_empty(tmp_path: Path) -> None:
    assert journal.read(tmp_path / "none", (ONE,)).reports == ()


def test_a_torn_last_line_costs_only_the_trial_under_way(tmp_path: Path) -> None:
    merged = read(tmp_path, [*whole(ONE), begin(TWO)], tail=b'{"event": "sam')
    assert merged.defect is None
    assert [report.outcome for report in merged.reports] == ["completed", None]


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ([{"event": "begin", "trial": "b/default/numpy/9"}], "not in its job"),
        ([begin(ONE), begin(TWO)], "a second time"),
        ([begin(TWO)], "a second time"),
        ([samples(ONE, "loss", 1.0)], "which it has not begun"),
        ([begin(ONE), samples(TWO, "loss", 1.0)], "which it has not begun"),
        ([begin(ONE), samples(ONE, "speed", 1.0)], "undeclared metric 'speed'"),
        ([HELLO], "has two hello events"),
        ([begin(ONE), samples(ONE, "loss")], "found [], expected a list of values"),
        (
            [begin(ONE), samples(ONE, "loss", 1), samples(ONE, "loss", 2, 3, warmup=1)],
            "has warm-up values after",
        ),
        (
            [begin(ONE), point(ONE, "loss", 1, 0.5), samples(ONE, "loss", 0.4)],
            "a step for only some",
        ),
        ([begin(ONE), point(ONE, "loss", 1, 0.5), point(ONE, "loss", 1, 0.4)], "step 1 after step"),
        (
            [begin(ONE), *(point(ONE, "loss", step, 0.5) for step in (1, 3, 2))],
            "step 2 after step 3",
        ),
        (
            [begin(ONE), {**point(ONE, "loss", 1, 0.5), "steps": [1, 2]}],
            "steps of loss: found 2, expected 1",
        ),
        ([begin(ONE), {**point(ONE, "loss", 1, 0.5), "steps": ["NaN"]}], "has step nan"),
        (
            [begin(ONE), {**point(ONE, "loss", 1, 0.5), "wall": "soon"}],
            "wall of loss: found no list, expected 1",
        ),
        ([begin(ONE), end(ONE, seconds=True)], "without a duration"),
        ([begin(ONE), samples(ONE, "loss", "fast")], "expected a number, found 'fast'"),
        ([begin(ONE), samples(ONE, "loss", True)], "expected a number"),
        ([begin(ONE), samples(ONE, "loss", 1.0, warmup=1)], "warm-up"),
        ([begin(ONE), samples(ONE, "loss", 1.0, warmup=-1)], "warm-up"),
        ([begin(ONE), curve("steps", 1, 3, 2)], "step 2 after step 3"),
        ([begin(ONE), curve("steps", 1, 2, 2)], "step 2 after step 2"),
        ([begin(ONE), curve("wall", 1, 3, 2)], "wall time 2 after wall time 3"),
        ([begin(ONE), end(ONE, outcome="won")], "ends b/default/numpy/1 as 'won'"),
        ([begin(ONE), end(ONE, seconds=-1)], "without a duration"),
        ([{"event": "shutdown"}], "unknown event 'shutdown'"),
        ([[1, 2]], "is [1, 2], expected a JSON object"),
    ],
)
def test_what_stands_before_a_defect_counts_and_nothing_after_it(
    tmp_path: Path, events: Sequence[object], complaint: str
) -> None:
    merged = read(tmp_path, [*whole(TWO), *events, *whole(ONE)])
    assert merged.defect is not None
    assert complaint in merged.defect
    outcomes = {report.trial: report.outcome for report in merged.reports}
    assert outcomes[TWO.id] == "completed"
    assert outcomes.get(ONE.id) is None


def test_a_trial_begins_only_after_the_end_of_another(tmp_path: Path) -> None:
    merged = read(tmp_path, [begin(ONE), begin(TWO)])
    assert merged.defect is not None
    assert f"begins {TWO.id} before {ONE.id} has ended" in merged.defect


def test_a_trial_that_lacks_a_metric_has_failed(tmp_path: Path) -> None:
    merged = read(tmp_path, [begin(ONE), samples(ONE, "loss", 1.0), end(ONE)])
    assert (merged.reports[0].outcome, merged.reports[0].reason) == ("failed", "no-result")
    assert "time" in merged.reports[0].message


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_a_metric_that_is_no_number_fails_the_trial_and_is_kept(tmp_path: Path, value: str) -> None:
    events = [begin(ONE), samples(ONE, "loss", value), samples(ONE, "time", 1.0), end(ONE)]
    (report,) = read(tmp_path, events).reports
    assert (report.outcome, report.reason) == ("failed", "non-finite")
    assert not math.isfinite(report.series[0].values[0])


@given(
    st.binary(max_size=200)
    | st.lists(
        st.sampled_from(
            [HELLO, *whole(ONE), *whole(TWO), point(ONE, "loss", 2, 1.0), {"event": "end"}, 7, None]
        ),
        max_size=8,
    ).map(lambda lines: b"".join(json.dumps(x).encode() + b"\n" for x in lines))
)
@examples(100, times=200, allowed=[HealthCheck.function_scoped_fixture])
def test_no_bytes_can_break_the_reader(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(data)
    for report in journal.read(path, (ONE, TWO)).reports:
        for series in report.series:
            assert len(series.values) > series.warmup
            assert series.steps is None or len(series.steps) == len(series.values)


def test_samples_of_one_metric_come_in_several_lines_while_the_trial_runs(tmp_path: Path) -> None:
    events = [
        begin(ONE),
        samples(ONE, "time", 9.0, 1.0, warmup=1),
        *(point(ONE, "loss", step, 1 / step) for step in (1, 2, 4)),
        samples(ONE, "time", 2.0),
    ]
    (report,) = read(tmp_path, events, tail=b'{"event": "samples", "tri').reports
    assert report.outcome is None
    time, loss = report.series
    assert (time.values, time.warmup) == ((9.0, 1.0, 2.0), 1)
    assert (loss.values, loss.steps) == ((1.0, 0.5, 0.25), (1.0, 2.0, 4.0))
    assert (loss.wall, loss.active) == ((2.0, 4.0, 8.0), (1.5, 3.0, 6.0))


@pytest.mark.parametrize(
    ("hello", "complaint"),
    [
        (
            {**HELLO, "format": "capsule-journal/2"},
            "'capsule-journal/2', expected 'capsule-journal/1'",
        ),
        ({**HELLO, "ranks": 2}, "names rank 0 of 2, expected rank 0 of 1"),
        ({**HELLO, "rank": 1}, "names rank 1 of 1"),
        (begin(ONE), "lacks its hello event"),
    ],
)
def test_a_program_that_speaks_another_format_or_of_another_world_is_not_believed(
    tmp_path: Path, hello: Event, complaint: str
) -> None:
    merged = read(tmp_path, whole(ONE), hello=hello)
    assert merged.defect is not None
    assert complaint in merged.defect
    assert merged.reports == ()


def test_a_trial_reports_as_many_numbers_as_a_capsule_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [
        begin(ONE),
        samples(ONE, "loss", *map(float, range(20))),
        samples(ONE, "time", 3.0),
        samples(ONE, "loss", 3.0),
        end(ONE),
    ]
    for name, most in (("MOST_SERIES_NUMBERS", 21), ("MOST_TRIAL_NUMBERS", 22)):
        with monkeypatch.context() as patch:
            patch.setattr(journal, name, most)
            (report,) = read(tmp_path, events).reports
            assert report.outcome == "completed"
            patch.setattr(journal, name, most - 1)
            (report,) = read(tmp_path, events).reports
            assert (report.outcome, report.reason, report.series) == ("failed", "bad-result", ())
            assert f"more than {most - 1} numbers" in report.message


def test_times_may_stand_still_and_steps_may_not(tmp_path: Path) -> None:
    (report,) = read(tmp_path, [begin(ONE), curve("active", 1, 1), curve("active", 1, 2)]).reports
    assert [one.active for one in report.series] == [(1.0, 1.0, 1.0, 2.0)]


def test_a_line_has_as_many_bytes_as_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = samples(ONE, "loss", *map(float, range(200)))
    events = [begin(ONE), long, samples(ONE, "time", 3.0), end(ONE), *whole(TWO)]
    monkeypatch.setattr(journal, "MAX_LINE_BYTES", len(encode([long])))
    assert [one.outcome for one in read(tmp_path, events).reports] == ["completed"] * 2
    for fewer in (1, 700):
        monkeypatch.setattr(journal, "MAX_LINE_BYTES", len(encode([long])) - fewer)
        first, second = read(tmp_path, events).reports
        assert (first.outcome, first.reason, second.outcome) == (
            "failed",
            "bad-result",
            "completed",
        )
        assert "reports a line of more than" in first.message


def test_a_line_has_as_many_commas_as_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MOST_SERIES_NUMBERS", 10)
    for commas, defect in ((20, None), (21, "has a line of more than")):
        bye = {"event": "bye", "more": [0] * commas}
        told = read(tmp_path, [*whole(ONE), *whole(TWO), bye]).defect
        assert told is None if defect is None else defect in str(told)


@pytest.mark.parametrize(
    ("name", "size", "defect"),
    [
        ("MAX_SOFTWARE_BYTES", len(encode([HELLO])), "has a hello event of more than"),
        ("MAX_FILE_BYTES", len(encode([HELLO, *whole(ONE), *whole(TWO)])), "larger than"),
    ],
)
def test_a_journal_says_as_much_as_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, size: int, defect: str
) -> None:
    events = [*whole(ONE), *whole(TWO)]
    monkeypatch.setattr(journal, name, size)
    assert read(tmp_path, events).defect is None
    monkeypatch.setattr(journal, name, size - 1)
    assert defect in str(read(tmp_path, events).defect)


def test_samples_without_a_warm_up_have_none(tmp_path: Path) -> None:
    lines = [samples(ONE, "loss", 1.0), samples(ONE, "loss", 2.0), samples(ONE, "time", 3.0)]
    for line in lines:
        del line["warmup"]
    (report,) = read(tmp_path, [begin(ONE), *lines, end(ONE)]).reports
    assert [(one.values, one.warmup) for one in report.series] == [((1.0, 2.0), 0), ((3.0,), 0)]


def test_a_program_that_names_no_world_is_alone(tmp_path: Path) -> None:
    hello = {name: value for name, value in HELLO.items() if name not in ("rank", "ranks")}
    assert read(tmp_path, whole(ONE), hello=hello).defect is None
    path = tmp_path / "journal.jsonl"
    for rank, ranks in ((1, 2), (0, 2)):
        assert "names rank 0 of 1" in str(journal.read(path, (ONE,), rank=rank, ranks=ranks).defect)


def test_a_process_that_leaves_its_other_trials_says_so_at_the_end_of_one(tmp_path: Path) -> None:
    lost = end(ONE, outcome="failed", reason="error", message="CUDA error: x", leaves=True)
    told = read(tmp_path, [begin(ONE), lost])
    assert [(report.outcome, report.leaves) for report in told.reports] == [("failed", True)]
    assert told.defect is None
    odd = end(ONE, outcome="failed", reason="error", leaves="yes")
    (report,) = read(tmp_path, [begin(ONE), odd]).reports
    assert report.leaves is False


@pytest.mark.parametrize(
    "excess",
    [
        [samples(TWO, "loss", *[0.5] * 11)],
        [samples(TWO, "loss", *[0.5] * 6), samples(TWO, "loss", *[0.5] * 6)],
        [point(TWO, "loss", step, 0.5) for step in range(4)],
        [samples(TWO, "loss", *[0.5] * 9), samples(TWO, "time", *[0.5] * 9)],
        [samples(TWO, "loss", *[0.5] * 500), samples(TWO, "time", 1.0)],
        [{"event": "samples", "padding": "x" * 3000}],
    ],
    ids=["one line", "lines", "a curve", "several metrics", "many values", "a long line"],
)
def test_a_trial_that_reports_too_much_fails_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, excess: list[Event]
) -> None:
    monkeypatch.setattr(journal, "MOST_SERIES_NUMBERS", 10)
    monkeypatch.setattr(journal, "MOST_TRIAL_NUMBERS", 15)
    monkeypatch.setattr(journal, "MAX_LINE_BYTES", 2500)
    three = trial(3)
    events = [*whole(ONE), begin(TWO), *excess, end(TWO), *whole(three)]
    path = tmp_path / "journal.jsonl"
    path.write_bytes(encode([HELLO, *events]))
    told = merge([journal.read(path, (ONE, TWO, three))], (ONE, TWO, three))
    assert told.defect is None
    first, second, third = told.reports
    assert (first.outcome, third.outcome) == ("completed", "completed")
    assert (second.outcome, second.reason, second.series) == ("failed", "bad-result", ())


def test_too_much_before_any_trial_is_a_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MAX_LINE_BYTES", 2500)
    told = read(tmp_path, [{"event": "begin", "padding": "x" * 3000}, *whole(ONE)])
    assert told.defect is not None
    assert told.reports == ()


def timed_events(at: object, until: object, timed: object) -> list[Event]:
    ended = {"event": "end", "trial": ONE.id, "outcome": "completed", "seconds": 1.0}
    own = [samples(ONE, metric.name, 1.0) for metric in METRICS]
    return [HELLO, {**begin(ONE), "at": at}, *own, {**ended, "at": until, "timed": timed}]


@pytest.mark.parametrize(
    ("at", "until", "timed", "windows"),
    [
        (5, 7.5, [[5.5, 6], [6.5, 7.0]], (Window(0, 5.0, 7.5, ((5.5, 6.0), (6.5, 7.0))),)),
        (5.0, 7.5, [], (Window(0, 5.0, 7.5),)),
        # what cannot be is left out, and is no defect: a version before had none of it
        (None, 7.5, [[5.5, 6.0]], ()),
        ("5", 7.5, [], ()),
        (True, 7.5, [], ()),
        (1e300, 7.5, [], ()),
        (5.0, None, None, (Window(0, 5.0),)),
        (5.0, 7.5, [[5.5], [5.5, "6"], 5, [6.5, 7.0]], (Window(0, 5.0, 7.5, ((6.5, 7.0),)),)),
        (5.0, 7.5, [[5.5, 6.0]] * 10_001, (Window(0, 5.0, 7.5),)),
    ],
)
def test_a_journal_says_when_a_trial_ran_and_measured(
    tmp_path: Path, at: object, until: object, timed: object, windows: tuple[Window, ...]
) -> None:
    path = tmp_path / "journal.jsonl"
    lines = timed_events(at, until, timed)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    found = journal.read(path, [ONE])
    assert found.defect is None
    assert found.reports[0].windows == windows
    merged = merge([found, found], [ONE])
    assert merged.reports[0].windows == windows * 2


def test_a_trial_under_way_has_begun(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text("".join(f"{json.dumps(x)}\n" for x in (HELLO, {**begin(ONE), "at": 5.0})))
    assert journal.read(path, [ONE]).reports[0].windows == (Window(0, 5.0),)
