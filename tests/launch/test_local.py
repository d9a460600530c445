"""Ranks that are started together on this node, as real processes."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import process
from capsule.launch.local import Local
from capsule.runtimes.base import Ended, Invocation, Prepared, Running
from capsule.runtimes.host import Host
from tests.support.patience import PATIENCE_SECONDS

PREPARED = Prepared(handle="")
WAITS = "trap 'exit 7' TERM; while :; do sleep 0.01; done"


def rank(folder: Path, number: int, script: str) -> Invocation:
    """One that runs a line of shell."""
    return Invocation(
        command=("sh", "-c", script),
        environment={},
        mounts=(),
        cwd=str(folder),
        label=f"test-{folder}",
        stdout=folder / f"{number}.out",
        stderr=folder / f"{number}.err",
    )


def ends(folder: Path, *scripts: str) -> tuple[Ended, ...] | None:
    invocations = [rank(folder, number, script) for number, script in enumerate(scripts)]
    launched = Local().start(Host(), PREPARED, invocations)
    try:
        return launched.wait(PATIENCE_SECONDS)
    finally:
        launched.stop()


def test_all_ranks_are_waited_for(tmp_path: Path) -> None:
    well = Ended(exit_code=0, signal=None)
    meets = "touch a; while [ ! -e b ]; do sleep 0.01; done"
    assert ends(tmp_path, meets, "touch b; while [ ! -e a ]; do sleep 0.01; done") == (well, well)


def test_the_one_that_fails_is_the_cause_whatever_the_others_make_of_it(tmp_path: Path) -> None:
    ended = ends(tmp_path, WAITS, "exit 3", WAITS)
    taken = Ended(exit_code=None, signal=signal.SIGTERM)
    assert ended == (taken, Ended(exit_code=3, signal=None), taken)
    assert not process.find_marked(f"test-{tmp_path}")


def test_a_rank_whose_program_is_not_there_ends_the_others(tmp_path: Path) -> None:
    first, second = rank(tmp_path, 0, WAITS), rank(tmp_path, 2, "")
    lost = replace(second, command=("no-such-program",))
    ended = Local().start(Host(), PREPARED, [first, lost]).wait(PATIENCE_SECONDS)
    assert ended is not None
    assert ended[0].signal == signal.SIGTERM
    assert "no-such-program" in str(ended[1].engine_fault)


def test_time_that_is_over_leaves_them_running_until_they_are_stopped(tmp_path: Path) -> None:
    launched = Local().start(Host(), PREPARED, [rank(tmp_path, n, WAITS) for n in (0, 1, 2)])
    assert launched.wait(0.05) is None
    assert launched.tasks() >= 3
    launched.stop()
    assert not process.find_marked(f"test-{tmp_path}")


def test_an_interrupt_while_they_are_started_leaves_none(tmp_path: Path) -> None:
    class Interrupted(Host):
        def start(self, prepared: Prepared, invocation: Invocation) -> Running:
            if invocation.stdout.name == "1.out":
                raise KeyboardInterrupt
            return super().start(prepared, invocation)

    with pytest.raises(KeyboardInterrupt):
        Local().start(Interrupted(), PREPARED, [rank(tmp_path, n, WAITS) for n in (0, 1)])
    assert not process.find_marked(f"test-{tmp_path}")
