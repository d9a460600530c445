"""The journal's file: whole lines, at once, and what no reader could hold in several."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest

from capsule.levels import journal
from capsule.levels.journal import Journal, JournalError, Samples
from capsule.levels.report import Report


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def synced(monkeypatch):
    """The clock of the journal, and the times at which its file was put on the disk."""
    times, clock = [], [0.0]
    monkeypatch.setattr(journal, "monotonic", lambda: clock[0])
    monkeypatch.setattr(os, "fsync", lambda file: times.append(clock[0]))
    return clock, times


def test_each_report_is_in_the_file_before_the_next(tmp_path):
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


def test_samples_without_steps_have_no_field_for_them(tmp_path):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as written:
        written.samples("train", Samples("time", (3.0, 1.0), 1))
    (line,) = read(path)
    assert set(line) == {"event", "trial", "metric", "warmup", "values"}


def test_hello_end_and_bye_are_on_the_disk_and_samples_once_a_second(tmp_path, synced):
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


def test_a_huge_trial_is_written_in_lines_that_can_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "LINE_VALUES", 1000)
    path = tmp_path / "journal.jsonl"
    numbers = tuple(float(number) for number in range(2500))
    with Journal(path) as written:
        written.samples("train", Samples("time", numbers, 1200))
        written.samples("train", Samples("loss", numbers, 0, numbers, numbers, numbers))
    lines = read(path)
    assert [len(line["values"]) for line in lines] == [1000, 1000, 500] * 2
    assert [line["warmup"] for line in lines] == [1200, 0, 0, 0, 0, 0]
    for name in ("values", "steps", "wall", "active"):
        assert [number for line in lines[3:] for number in line[name]] == list(numbers)


def test_a_line_of_most_values_stays_far_below_what_a_host_reads(tmp_path):
    from capsule.execute.journal import MAX_LINE_BYTES

    path = tmp_path / "journal.jsonl"
    numbers = (-1.2345678901234567e-300,) * journal.LINE_VALUES
    with Journal(path) as written:
        written.samples("train", Samples("loss", numbers, 0, numbers, numbers, numbers))
    assert path.stat().st_size < MAX_LINE_BYTES / 2


def test_numbers_of_a_framework_are_numbers_of_json(tmp_path):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as written:
        report = Report(lambda samples: written.samples("train", samples))
        report.samples("time", numpy.array([0.5, numpy.nan], "float32"))
        report.samples("count", [numpy.int64(3), True])
        report.point("loss", numpy.int64(7), numpy.float32(-numpy.inf))
    times, counts, loss = read(path)
    assert times["values"] == [0.5, "NaN"]
    assert counts["values"] == [3, 1]
    assert (loss["steps"], loss["values"]) == ([7], ["-Infinity"])


def test_lines_of_several_threads_do_not_mix(tmp_path):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as written, ThreadPoolExecutor(8) as pool:
        for number in range(200):
            values = (float(number),) * 500
            pool.submit(written.samples, "train", Samples(f"metric{number}", values))
    lines = read(path)
    assert len(lines) == 200
    assert all(set(line["values"]) == {float(line["metric"][6:])} for line in lines)


@pytest.mark.parametrize("path", ["/dev/full", "/nowhere/journal.jsonl"])
def test_a_journal_that_cannot_be_written_says_so_in_one_sentence(path):
    message = f"^{path} cannot be written: [A-Z][a-z ]+$"
    with pytest.raises(JournalError, match=message), Journal(path) as written:
        written.begin("train")
