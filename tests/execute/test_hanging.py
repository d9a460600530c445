"""Ranks that hang: which, and what their processes did."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from capsule import api, process, processes
from capsule.execute.outcome import describe_hung
from tests.support.command import User, write_manifest, write_script

pytestmark = pytest.mark.slow

# all ranks but one report and end
ONE_HANGS = """
import json, os, time
with open(os.environ["CAPSULE_RESULTS"], "a") as results:
    results.write(json.dumps({"metric": "loss", "value": 1.0}) + "\\n")
if os.environ["CAPSULE_RANK"] == "1":
    time.sleep(1000)
"""


def test_a_time_limit_names_the_rank_that_hangs_and_no_other(author: User) -> None:
    write_script(author.folder, ONE_HANGS)
    benchmark = {
        **{"id": "tiny", "command": ["python3", "tiny.py"], "inputs": ["tiny.py"]},
        **{"metrics": {"loss": {"per": "rank"}}, "timeout": "00:00:08", "ranks_independent": True},
    }
    manifest = write_manifest(
        author.folder, benchmarks=[benchmark], claims=[], seeds=[1], resources={"ranks_per_node": 3}
    )
    ended = author.run("run", manifest, "--runtime", "host", "--keep-going", "--output", "a.zip")
    assert ended.returncode == 5, ended.stdout + ended.stderr
    with api.open(author.folder / "a.zip") as capsule:
        (attempt,) = capsule.record.attempts
    assert attempt.reason == "timeout"
    assert "rank 1 of 3 was still running" in attempt.message
    assert ") S, sleeping" in attempt.message
    assert "rank 0" not in attempt.message
    assert "rank 2" not in attempt.message


@pytest.mark.parametrize(("number", "state"), [(signal.SIGSTOP, " T, "), (None, " S, ")])
def test_the_state_of_a_process_is_told(
    tmp_path: Path, number: signal.Signals | None, state: str
) -> None:
    program = "import subprocess, sys; subprocess.run(['sleep', '1000'])"
    running = process.start(
        (sys.executable, "-c", program),
        env={},
        cwd=tmp_path,
        stdout=tmp_path / "out",
        stderr=tmp_path / "err",
    )
    while "sleep (" not in running.describe():
        pass
    if number is not None:
        (inner,) = find_children(running.pid)
        subprocess.run(["kill", f"-{number.value}", str(inner)], check=True)
        while state not in running.describe():
            pass
    assert state in running.describe()
    # the one that waits for it is not told
    assert "python" not in running.describe()
    running.stop()
    assert running.describe() == ""


def find_children(pid: int) -> list[int]:
    return processes.list_living(lambda _, stat: stat.parent == pid)


def test_many_ranks_are_named_in_one_line() -> None:
    line = describe_hung({rank: f"python3 ({rank}) D, waiting" for rank in range(4096)}, 4096)
    assert len(line) < 500
    assert "and 4080 more of 4096" in line
    assert describe_hung({}, 4) == ""
    assert describe_hung({0: "python3 (7) S"}, 1) == "still running: python3 (7) S"
