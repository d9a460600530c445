"""When a line of a run's log is safe from the machine's own end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from capsule.execute.log import Begun, Log


class Clock:
    """Stands until it is moved, and counts what is brought to the disk."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.syncs = 0

    def monotonic(self) -> float:
        return self.seconds

    def fsync(self, descriptor: int) -> None:
        os.fstat(descriptor)
        self.syncs += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("capsule.execute.log.time.monotonic", clock.monotonic)
    monkeypatch.setattr("capsule.execute.log.os.fsync", clock.fsync)
    return clock


def start(number: int) -> Begun:
    return Begun(number=number, group="g", trials=("t",), ranks=1, nodes=(0,), at="now")


def test_a_line_before_a_long_trial_is_safe_a_second_later(tmp_path: Path, clock: Clock) -> None:
    log = Log(tmp_path / "attempts.jsonl")
    log.begin(start(1))
    assert clock.syncs == 0
    clock.seconds += 1
    log.sync()
    assert clock.syncs == 1


def test_short_trials_do_not_wait_for_the_disk_and_nothing_new_is_not_synced(
    tmp_path: Path, clock: Clock
) -> None:
    log = Log(tmp_path / "attempts.jsonl")
    for number in range(1, 31):
        clock.seconds += 0.125
        log.begin(start(number))
    assert clock.syncs == 3
    clock.seconds += 60
    log.sync()
    clock.seconds += 60
    log.sync()
    assert clock.syncs == 4


def test_what_a_run_that_was_cut_off_left_is_brought_to_the_disk(
    tmp_path: Path, clock: Clock
) -> None:
    Log(tmp_path / "attempts.jsonl").begin(start(1))
    log = Log(tmp_path / "attempts.jsonl")
    clock.seconds += 1
    log.sync()
    assert clock.syncs == 1
