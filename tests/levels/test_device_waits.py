"""Waits for a device, and errors that leave it unusable, with stand-ins in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pytest

from capsule.levels import frameworks, run
from capsule.levels.instruments import calls, memory, timing
from capsule.levels.level1 import sampled
from tests.support import jobs, trainings, trials
from tests.support.changed import Operators

ILLEGAL = "CUDA error: an illegal memory access was encountered"
REFUSED = "mat1 and mat2 shapes cannot be multiplied"

Event = dict[str, Any]


def fail(words: str) -> Callable[[], None]:
    def raise_error() -> None:
        raise RuntimeError(words)

    return raise_error


def run_two(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    measure: Callable[[], None],
    synchronize: Callable[[], None] | None,
) -> tuple[int, list[Event]]:
    """Exit status and ends of a job of two trials, of which the first one measures so."""
    framework: Any = trainings.numpy_alone()
    todo, left = [measure], list[int]()

    def take(*_: Any) -> None:
        framework.synchronize = synchronize
        if todo:
            todo.pop()()

    monkeypatch.setattr(frameworks, "load", lambda *_: framework)
    monkeypatch.setattr(run, "load_level", lambda _: take)
    monkeypatch.setattr("gc.freeze", lambda: None)
    job, journal = folder / "job.json", folder / "journal.jsonl"
    both = [jobs.operator("relu", name, n=5) for name in ("default", "late")]
    job.write_text(json.dumps(jobs.job(both)))
    # it would end this process
    monkeypatch.setattr("os._exit", left.append)
    status = run.main(job, journal)
    lines = map(json.loads, journal.read_text().splitlines())
    return (left or [status])[0], [line for line in lines if line["event"] == "end"]


@pytest.mark.parametrize(
    ("measure", "synchronize", "is_lost"),
    [
        (fail(ILLEGAL), None, True),
        (fail(ILLEGAL), int, True),
        (fail(REFUSED), int, False),
        (fail(REFUSED), None, False),
        # it is found when the device is waited for
        (fail(REFUSED), fail("no answer"), True),
        (int, fail("no answer"), True),
    ],
)
def test_a_process_ends_with_the_trial_after_which_its_device_does_not_work(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    measure: Callable[[], None],
    synchronize: Callable[[], None] | None,
    is_lost: bool,
) -> None:
    status, ends = run_two(tmp_path, monkeypatch, measure, synchronize)
    assert ends[0]["outcome"] == "failed"
    assert ends[0].get("leaves", False) is is_lost
    assert len(ends) == (1 if is_lost else 2)
    assert status == (3 if is_lost else 0)


@pytest.mark.parametrize("synchronize", [int, None])
def test_a_trial_whose_device_works_completes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synchronize: Callable[[], None] | None
) -> None:
    status, ends = run_two(tmp_path, monkeypatch, lambda: None, synchronize)
    assert (status, [end["outcome"] for end in ends]) == (0, ["completed", "completed"])


def log_odd(words: str) -> list[str]:
    """Calls, waits and refusals of a gemm whose odd sizes alone are refused with these words."""
    framework: Any = trainings.numpy_alone()
    log: list[str] = []

    def look(way: str, call: Any) -> Any:
        function, operands = call

        def refuse(*given: Any) -> Any:
            log.append("call")
            if way == "operation" and given[0].shape[0] != gemm["m"]:
                log.append("refusal")
                raise RuntimeError(words)
            return function(*given)

        return refuse, operands

    gemm = {"m": 3, "n": 4, "k": 5}
    framework.synchronize = partial(log.append, "wait")
    framework.operators = Operators(framework.operators, look)
    trials.measure(framework, operator="gemm", parameters=gemm)
    return log


def test_odd_sizes_that_a_device_refuses_are_waited_for() -> None:
    log = log_odd(REFUSED)
    assert log.count("refusal") == 1
    assert log[log.index("refusal") + 1] == "wait"


def test_an_error_at_odd_sizes_that_loses_the_device_is_passed_on() -> None:
    with pytest.raises(RuntimeError, match="illegal memory access"):
        log_odd(ILLEGAL)


def test_examples_that_a_network_refuses_alone_are_none_unless_its_device_is_lost() -> None:
    whole = numpy.ones((4, 2))

    def hold(words: str) -> float:
        def refuse(*_: Any) -> Any:
            raise RuntimeError(words)

        return sampled.hold({"x": whole}, 4, 2, [(whole,)], refuse, lambda *_: 1.0)

    assert hold(REFUSED) == 0
    with pytest.raises(RuntimeError, match="illegal memory access"):
        hold(ILLEGAL)


@pytest.mark.parametrize("waits", [True, False])
def test_calls_are_timed_with_the_waits_that_a_device_needs(waits: bool) -> None:
    log: list[str] = []

    def call() -> int:
        log.append("call")
        return 7

    wait = partial(log.append, "wait") if waits else None
    durations, result = timing.measure_apart(
        call, (), (0, 1), lambda index: log.append(f"{index}"), wait
    )
    assert (len(durations), result) == (2, 7)
    assert log == (
        ["0", "wait", "call", "wait", "1", "wait", "call", "wait"]
        if waits
        else ["0", "call", "1", "call"]
    )
    log.clear()
    durations, result = timing.measure(call, (), 3, wait)
    assert (len(durations), result) == (3, 7)
    assert log.count("call") == 3
    assert ("wait" in log) is waits


def test_without_a_clock_of_its_own_a_device_is_timed_and_watched_by_the_host() -> None:
    framework = trainings.numpy_alone()
    assert framework.device_clock is None
    assert calls.typical(framework, lambda: None, (), 5) > 0
    watch = memory.watch(framework)
    watch.reset_peak()
    assert watch.peak() >= 0
