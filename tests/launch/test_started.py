"""Launchers that do not do what they are for: silent ones, and ranks that end with them."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from capsule import process
from capsule.errors import ExecutionError
from capsule.launch import started
from capsule.launch.folder import LaunchFolder
from capsule.launch.started import StartedRanks
from capsule.runtimes.base import Ended, Prepared
from capsule.runtimes.host import Host
from tests.support.launches import TAKEN, THEN, WAITS, WELL, label, ranks
from tests.support.patience import PATIENCE_SECONDS, read_lines

SLEEPS = "exec sleep 1000"


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a silent launcher here."""
    monkeypatch.setattr(started, "_SILENCE_SECONDS", 0.1)
    monkeypatch.setattr(started, "_COUNT_SECONDS", 0.01)
    monkeypatch.setattr(process, "STOP_SECONDS", 1)


def launch(
    folder: Path, *scripts: str, then: str = SLEEPS, sweep: Callable[[float], None] = lambda _: None
) -> StartedRanks:
    """Start ranks by a launcher that does something else once they run."""
    invocations = ranks(folder, *scripts)
    laid = started.lay_out(Host(), Prepared(handle=""), invocations, far=False, joins=False)
    wrapper = shlex.join(started.wrapper(laid, "RANK", "SIZE"))
    starts = "".join(f"RANK={rank} {wrapper} & " for rank in range(len(scripts)))
    running = process.start(
        ("sh", "-c", f"{starts} {then}"),
        env={**os.environ, "SIZE": str(len(scripts)), process.RUN_MARK: label(folder)},
        cwd=folder,
        stdout=laid.stdout,
        stderr=laid.stderr,
    )
    return StartedRanks(running, laid, len(scripts), label(folder), lambda _: False, sweep)


def refuse_to_end(_seconds: float) -> None:
    """A step that stays."""
    raise ExecutionError("Slurm's step 7.0 does not end")


@pytest.mark.parametrize("sweep", [lambda _: None, refuse_to_end])
def test_a_silent_launcher_is_stopped_and_the_ranks_own_results_count(
    tmp_path: Path, sweep: Callable[[float], None]
) -> None:
    launched = launch(tmp_path, "true", "sleep 0.3", "true", sweep=sweep)
    assert launched.wait(PATIENCE_SECONDS) == (WELL,) * 3
    assert not process.find_marked(label(tmp_path))


def test_a_rank_that_failed_is_told_as_it_ended_though_the_launcher_is_silent(
    tmp_path: Path,
) -> None:
    launched = launch(tmp_path, WAITS, f"{THEN}exit 3")
    assert launched.wait(PATIENCE_SECONDS) == (TAKEN, Ended(exit_code=3, signal=None))
    assert not process.find_marked(label(tmp_path))


def test_a_launcher_is_not_stopped_while_a_rank_runs(tmp_path: Path) -> None:
    launched = launch(tmp_path, "true", WAITS)
    read_lines(tmp_path / "there")
    assert launched.wait(1.0) is None
    launched.stop()
    assert launched.wait(PATIENCE_SECONDS) == (WELL, TAKEN)
    # and is named, with what it did
    ((rank, state),) = launched.stopped().items()
    assert rank == 1
    assert re.search(r"(?:sh|sleep) \([0-9]+\) [A-Z], ", state)


def test_ranks_that_we_killed_with_their_launcher_are_not_said_to_have_been_killed(
    tmp_path: Path,
) -> None:
    laid = started.lay_out(
        Host(), Prepared(handle=""), ranks(tmp_path, "true", "true"), far=False, joins=False
    )
    # they are there, and nobody hears of them any more: their wrappers go with the launcher
    stubborn = (
        "import signal, sys, time\n"
        "from pathlib import Path\n"
        "from capsule.launch.folder import Begin, LaunchFolder\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "folder = LaunchFolder(Path(sys.argv[1]))\n"
        "for rank in range(2): folder.note_begin(rank, Begin(node='n', step=''))\n"
        "open('there', 'w').write('there\\n')\n"
        "time.sleep(1000)\n"
    )
    running = process.start(
        (sys.executable, "-c", stubborn, str(laid.path)),
        env={**os.environ, process.RUN_MARK: label(tmp_path)},
        cwd=tmp_path,
        stdout=laid.stdout,
        stderr=laid.stderr,
    )
    read_lines(tmp_path / "there")
    launched = StartedRanks(running, laid, 2, label(tmp_path), lambda _: False)
    launched.stop()
    assert launched.wait(PATIENCE_SECONDS) == (TAKEN, TAKEN)


def test_a_lost_rank_is_still_told_as_lost(tmp_path: Path) -> None:
    launched = launch(tmp_path, "true", "true", then="wait")
    assert launched.wait(PATIENCE_SECONDS) == (WELL, WELL)
    folder = LaunchFolder(tmp_path / "0" / "launch")
    (folder.path / "ended" / "0001").unlink()
    ended = process.start(
        ("true",), env=dict(os.environ), cwd=tmp_path, stdout=folder.stdout, stderr=folder.stderr
    )
    lost = StartedRanks(ended, folder, 2, label(tmp_path), lambda _: False)
    assert lost.wait(PATIENCE_SECONDS) == (WELL, Ended(exit_code=None, signal=signal.SIGKILL))
