"""Trials that report while they run, in a process of their own, which then ends as it may."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.jobs import LEVELS, Event, end, events, job, operator, samples

# a level of the test's own in the real program
PROGRAM = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(LEVELS.parent.parent)!r})
from capsule.levels import level0, run

def measure(trial, framework, report):
    {{body}}

level0.measure = measure
sys.exit(run.main(Path("job.json"), Path("journal.jsonl")))
"""
TRAIN = "relu/default/float32/17"
LATE = "relu/late/float32/17"


def start(folder: Path, body: str) -> subprocess.Popen[str]:
    (folder / "job.json").write_text(
        json.dumps(job([operator("relu", n=5), operator("relu", "late", n=5)]))
    )
    lines = "\n    ".join(body.strip().splitlines())
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.replace("{body}", lines)],
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, body: str) -> tuple[int, str, list[Event]]:
    """Exit status and messages of a program that ends by itself, and its journal."""
    with start(folder, body) as process:
        _, messages = process.communicate(timeout=600)
        return process.returncode, messages, events(folder)


CURVE = """
for step in range(1, 1000):
    if step == 500:
        print("half", flush=True)
        sys.stdin.readline()
    with report.pause():
        report.point("accuracy", step, step / 1000)
    report.point("loss", step, 1 / step)
"""


GARBAGE = """
import gc
report.point("collects", 1, float(gc.isenabled()))
report.point("kept", 1, float(gc.get_freeze_count() > 1000))
"""


def test_trials_collect_their_garbage_and_leave_the_framework_s_objects_alone(
    tmp_path: Path,
) -> None:
    status, messages, journal = run(tmp_path, GARBAGE)
    assert status == 0, messages
    reported = {event["metric"]: event["values"] for event in journal if "values" in event}
    assert reported == {"collects": [1.0], "kept": [1.0]}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_curve_is_kept_up_to_the_kill(tmp_path: Path, number: signal.Signals) -> None:
    with start(tmp_path, CURVE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        process.send_signal(number)
        assert process.wait(timeout=600) == -number
    journal = events(tmp_path)
    assert [event["event"] for event in journal[:2]] == ["hello", "begin"]
    assert {event["event"] for event in journal[2:]} == {"samples"}
    curves: dict[str, Callable[[int], float]] = {
        "loss": lambda step: 1 / step,
        "accuracy": lambda step: step / 1000,
    }
    for metric, value in curves.items():
        lines = [event for event in journal[2:] if event["metric"] == metric]
        assert {event["trial"] for event in lines} == {TRAIN}
        assert [event["steps"] for event in lines] == [[step] for step in range(1, 500)]
        assert [event["values"] for event in lines] == [[value(step)] for step in range(1, 500)]
        walls = [event["wall"][0] for event in lines]
        assert walls == sorted(walls)
        assert all(0 < event["active"][0] <= event["wall"][0] for event in lines)


def test_a_trial_that_fails_keeps_what_it_reported(tmp_path: Path) -> None:
    body = """
report.samples("time", [2.0, 1.0], warmup=1)
report.point("loss", 1, 0.5)
raise MemoryError("out of memory at step 2")
"""
    status, _, journal = run(tmp_path, body)
    assert status == 0
    for trial in (TRAIN, LATE):
        assert end(journal, trial)["reason"] == "out-of-memory"
        kept = samples(journal, trial)
        assert (kept["time"]["values"], kept["time"]["warmup"]) == ([2.0, 1.0], 1)
        assert (kept["loss"]["values"], kept["loss"]["steps"]) == ([0.5], [1.0])


def test_a_nan_in_a_curve_fails_the_trial_and_the_rest_of_the_curve_is_there(
    tmp_path: Path,
) -> None:
    body = """
for step, value in enumerate((1.0, float("nan"), 0.5)):
    report.point("loss", step, value)
"""
    _, _, journal = run(tmp_path, body)
    last = end(journal, TRAIN)
    assert (last["outcome"], last["reason"]) == ("failed", "non-finite")
    assert last["message"] == "not finite: loss"
    lines = [event for event in journal if event["event"] == "samples" and event["trial"] == TRAIN]
    assert [line["values"] for line in lines] == [[1.0], ["NaN"], [0.5]]


def test_a_step_that_goes_back_fails_the_trial_and_keeps_the_curve(tmp_path: Path) -> None:
    body = """
report.point("loss", 2, 1.0)
report.point("loss", 1, 1.0)
"""
    _, _, journal = run(tmp_path, body)
    last = end(journal, TRAIN)
    assert (last["outcome"], last["reason"]) == ("failed", "error")
    assert (
        last["message"]
        == "ValueError: loss was reported at step 1 after step 2, expected a later step"
    )
    assert samples(journal, TRAIN)["loss"]["steps"] == [2.0]


def test_a_report_after_the_end_is_not_in_the_journal(tmp_path: Path) -> None:
    body = """
if "kept" not in globals():
    globals()["kept"] = report
else:
    kept.samples("time", [1.0])
"""
    _, _, journal = run(tmp_path, body)
    assert end(journal, TRAIN)["outcome"] == "completed"
    assert end(journal, LATE)["message"] == (
        "RuntimeError: time was reported after the end of its trial"
    )
    assert not [event for event in journal if event["event"] == "samples"]


def test_a_disk_that_fills_up_is_no_failure_of_the_trial(tmp_path: Path) -> None:
    body = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
report.samples("time", [1.0])
size = os.stat("journal.jsonl").st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
report.samples("time", [2.0])
"""
    status, messages, journal = run(tmp_path, body)
    assert (status, messages) == (1, "cannot write journal.jsonl: File too large\n")
    assert [event["event"] for event in journal] == ["hello", "begin", "samples"]
