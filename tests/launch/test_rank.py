"""What a launcher starts for each rank, while its node asks it to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from capsule import process
from capsule.launch.folder import Call, LaunchFolder
from capsule.launch.rank import END
from capsule.runtimes.base import Ended, Prepared
from tests.support.launches import TAKEN, WAITS, label, ranks
from tests.support.patience import read_lines

FAILED = Ended(exit_code=3, signal=None)


def start(folder: Path, script: str) -> tuple[LaunchFolder, subprocess.Popen[bytes]]:
    launched = LaunchFolder.create(folder / "launch")
    invocation = ranks(folder, script)[0]
    launched.write_call(
        0, Call(runtime="host", ranks=1, prepared=Prepared(handle=""), invocation=invocation)
    )
    words = [sys.executable, "-P", "-m", "capsule.launch.rank", str(launched.path), "RANK", "SIZE"]
    variables = {**os.environ, "RANK": "0", "SIZE": "1", process.RUN_MARK: label(folder)}
    return launched, subprocess.Popen(words, env=variables)


@pytest.mark.parametrize("trial", range(10))
def test_one_that_is_asked_to_end_when_its_rank_just_has_says_how(
    tmp_path: Path, trial: int
) -> None:
    launched, wrapper = start(tmp_path, "echo $$ >part; mv part there; exit 3")
    rank = Path("/proc", read_lines(tmp_path / "there")[0])
    while rank.exists():
        pass
    while wrapper.poll() is None:
        wrapper.send_signal(END)
    assert launched.ends()[0] in {FAILED, TAKEN}, trial
    assert wrapper.returncode == 0


@pytest.mark.parametrize(
    "signals", [(END,), (signal.SIGHUP,), (signal.SIGTERM, END), (END, signal.SIGTERM)]
)
def test_one_that_is_asked_again_and_again_ends_its_rank(
    tmp_path: Path, signals: tuple[signal.Signals, ...]
) -> None:
    launched, wrapper = start(tmp_path, WAITS)
    read_lines(tmp_path / "there")
    while wrapper.poll() is None:
        for one in signals:
            wrapper.send_signal(one)
    assert launched.ends() == {0: TAKEN}
    assert wrapper.returncode == 0
    assert not process.find_marked(label(tmp_path))
