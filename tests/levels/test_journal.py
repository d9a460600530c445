"""The journal's file: whole lines, at once, and what no reader could hold in several."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule.execute import journal as host
from capsule.levels import journal
from capsule.levels.journal import Journal, JournalError, Samples
from capsule.levels.report import Report
from capsule.manifest import Benchmark, Case, Metric, Operator
from capsule.plan import Trial
from tests.support.properties import examples

CASE = Case(name="default", parameters={})
HOST_TRIAL = Trial(
    id="b/default/numpy/1",
    benchmark=Benchmark(
        id="b",
        subject=Operator(name="gemm"),
        cases=(CASE,),
        frameworks=("numpy",),
        metrics=(Metric(name="loss"), Metric(name="time")),
    ),
    case=CASE,
    framework="numpy",
    seed=1,
    seed_source="manifest",
)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


Synced = tuple[list[float], list[float]]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Synced:
    """The clock of the journal, and the times at which its file was put on the disk."""
    times: list[float] = []
    clock = [0.0]
    monkeypatch.setattr(journal, "monotonic", lambda: clock[0])
    monkeypatch.setattr(os, "fsync", lambda file: times.append(clock[0]))
    return clock, times


def test_each_report_is_in_the_file_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as written:
        for step in range(1, 6):
            point = Samples("loss", (1 / step,), 0, (float(step),), (step / 8,), (step / 16,))
            written.samples("train", point)
            assert read(path)[-1] == {
                "event": "samples",
                "trial": "train",
                "metric": "loss",
                "warmup": 0,
                "values": [1 / step],
                "steps": [step],
                "wall": [step / 8],
                "active": [step / 16],
            }
    assert len(read(path)) == 5


def test_samples_without_steps_have_no_field_for_them(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as written:
        written.samples("train", Samples("time", (3.0, 1.0), 1))
    (line,) = read(path)
    assert set(line) == {"event", "trial", "metric", "warmup", "values"}


def test_hello_end_and_bye_are_on_the_disk_and_samples_once_a_second(
    tmp_path: Path, synced: Synced
) -> None:
    clock, times = synced
    with Journal(tmp_path / "journal.jsonl") as written:
        written.hello(0, 1, {}, {})
        written.begin("train")
        assert times == [0.0]
        for quarter in range(1, 10):
            clock[0] = quarter / 4
            written.samples("train", Samples("loss", (1.0,)))
        assert times == [0.0, 1.0, 2.0]
        written.end("train", None, "", 2.25)
        written.bye()
        assert times == [0.0, 1.0, 2.0, 2.25, 2.25]


def test_a_huge_trial_is_written_in_lines_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "LINE_VALUES", 1000)
    path = tmp_path / "journal.jsonl"
    numbers = tuple(float(number) for number in range(2500))
    with Journal(path) as written:
        written.samples("train", Samples("time", numbers, 1200))
        written.samples("train", Samples("loss", numbers, 0, numbers, numbers, numbers))
    lines = read(path)
    assert [len(line["values"]) for line in lines] == [1201, 1000, 299, 1000, 1000, 500]
    assert [line["warmup"] for line in lines] == [1200, 0, 0, 0, 0, 0]
    assert [number for line in lines[:3] for number in line["values"]] == list(numbers)
    for name in ("values", "steps", "wall", "active"):
        assert [number for line in lines[3:] for number in line[name]] == list(numbers)


def test_a_line_of_most_values_stays_far_below_what_a_host_reads(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    numbers = (-1.2345678901234567e-300,) * journal.LINE_VALUES
    with Journal(path) as written:
        written.samples("train", Samples("loss", numbers, 0, numbers, numbers, numbers))
    assert path.stat().st_size < host.MAX_LINE_BYTES / 2


def test_numbers_of_a_framework_are_numbers_of_json(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    counts: list[Any] = [numpy.int64(3), True]
    point: tuple[Any, Any] = (numpy.int64(7), numpy.float32(-numpy.inf))
    with Journal(path) as written:
        report = Report(lambda samples: written.samples("train", samples))
        report.samples("time", numpy.array([0.5, numpy.nan], "float32"))
        report.samples("count", counts)
        report.point("loss", *point)
    time, count, loss = read(path)
    assert time["values"] == [0.5, "NaN"]
    assert count["values"] == [3, 1]
    assert (loss["steps"], loss["values"]) == ([7], ["-Infinity"])


def test_lines_of_several_threads_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as written, ThreadPoolExecutor(8) as pool:
        for number in range(200):
            values = (float(number),) * 500
            pool.submit(written.samples, "train", Samples(f"metric{number}", values))
    lines = read(path)
    assert len(lines) == 200
    assert all(set(line["values"]) == {float(line["metric"][6:])} for line in lines)


WORDS = st.sampled_from(["loss", "time"])
NUMBERS = st.floats(width=32)
CALLS = st.one_of(
    st.tuples(st.just("point"), WORDS, st.integers(-3, 9), NUMBERS),
    st.tuples(st.just("samples"), WORDS, st.lists(NUMBERS, max_size=5), st.integers(-1, 3)),
)


@examples(150)
@given(calls=st.lists(CALLS, max_size=12))
def test_whatever_is_reported_is_read_by_the_host_and_the_rest_refused_at_once(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[Any, ...]]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    accepted: dict[str, tuple[list[float], list[float], int]] = {}
    with patch.object(journal, "LINE_VALUES", 2), Journal(path) as written:
        written.hello(1, 2, {}, {})
        written.begin(HOST_TRIAL.id)
        report = Report(partial(written.samples, HOST_TRIAL.id))
        for kind, metric, *words in calls:
            try:
                getattr(report, kind)(metric, *words)
            except ValueError:
                continue
            steps, values = ([words[0]], [words[1]]) if kind == "point" else ([], words[0])
            columns = accepted.setdefault(metric, ([], [], words[1] if kind == "samples" else 0))
            columns[0].extend(steps)
            columns[1].extend(values)
        written.end(HOST_TRIAL.id, None, "", 1.0)
    read_back = host.read(path, [HOST_TRIAL], rank=1, ranks=2)
    assert read_back.defect is None
    (trial,) = read_back.reports
    assert {series.metric for series in trial.series} == set(accepted)
    for series in trial.series:
        steps, values, warmup = accepted[series.metric]
        assert list(series.steps or ()) == steps
        assert repr(list(series.values)) == repr(values)
        assert series.warmup == warmup
        assert all(len(clock or ()) == len(steps) for clock in (series.wall, series.active))


@pytest.mark.parametrize("path", [Path("/dev/full"), Path("/nowhere/journal.jsonl")], ids=str)
def test_a_journal_that_cannot_be_written_says_so_in_one_sentence(path: Path) -> None:
    message = f"^cannot write {path}: [A-Z][a-z ]+$"
    with pytest.raises(JournalError, match=message), Journal(path) as written:
        written.begin("train")
