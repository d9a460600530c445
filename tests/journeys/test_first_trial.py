"""A run whose very first trial fails: it stops there, and nothing is lost."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tests.support.command import NOISY, REPORT, User, write_manifest, write_script

LOSS = "tiny/default/command/loss"
TRACE = "from pathlib import Path\nPath(TRACE, str(seed)).touch()\n"
FAILS = 'import sys; sys.exit("no data here")\n'


@pytest.fixture
def trace(author: User) -> Path:
    """Where each process start leaves a file of its seed's name."""
    folder = author.folder / "trace"
    folder.mkdir()
    return folder


def write(author: User, trace: Path, *, condition: str) -> Path:
    """A manifest whose script fails under some seeds."""
    note = TRACE.replace("TRACE", repr(str(trace)))
    value = NOISY.removeprefix(REPORT)
    write_script(author.folder, f"{REPORT}{note}if {condition}:\n    {FAILS}{value}")
    return write_manifest(author.folder, seeds=[1, 2, 3])


def begun(trace: Path) -> list[str]:
    return sorted(path.name for path in trace.iterdir())


def test_a_run_stops_at_its_first_trial_with_what_it_said_and_where(
    author: User, trace: Path
) -> None:
    ended = author.run("run", write(author, trace, condition="True"))
    assert ended.returncode == 5
    assert begun(trace) == ["1"]
    assert not list(author.folder.glob("*.zip"))
    (folder,) = author.folder.glob("*.run")
    assert "error: tiny/default/command/1: the first trial failed (exit)" in ended.stderr
    assert "no data here" in ended.stderr
    logs = f"{folder.name}/starts/0001"
    assert f"the logs of the trial are in {logs}" in ended.stderr
    assert (author.folder / logs / "stderr.txt").read_text() == "no data here\n"
    assert f"capsule run --resume {folder.name} --keep-going\n" in ended.stderr


def test_keep_going_counts_a_first_failure_as_an_outcome(author: User, trace: Path) -> None:
    manifest = write(author, trace, condition="seed == 1")
    ended = author.run("run", manifest, "--keep-going", "-o", "a.zip")
    assert ended.returncode == 5
    assert begun(trace) == ["1", "2", "3"]
    assert "failed trials are sealed as outcomes in a.zip" in ended.stderr
    loss = author.json("show", "a.zip")["metrics"][LOSS]
    assert (loss["failed"], loss["n"]) == (1, 2)


def test_a_later_failure_stops_nothing(author: User, trace: Path) -> None:
    ended = author.run("run", write(author, trace, condition="seed > 1"), "-o", "a.zip")
    assert ended.returncode == 5
    assert begun(trace) == ["1", "2", "3"]
    assert author.json("show", "a.zip")["metrics"][LOSS]["failed"] == 2


def test_what_stopped_is_taken_up_only_by_who_says_so(author: User, trace: Path) -> None:
    author.run("run", write(author, trace, condition="seed == 1"), "--work", "a.run")
    again = author.run("run", "--resume", "a.run")
    assert again.returncode == 5
    assert "the first trial failed" in again.stderr
    assert begun(trace) == ["1"]
    ended = author.run("run", "--resume", "a.run", "--keep-going", "-o", "a.zip")
    assert ended.returncode == 5
    assert begun(trace) == ["1", "2", "3"]
    assert not (author.folder / "a.run").exists()
    # the first trial was not run again
    loss = author.json("show", "a.zip")["metrics"][LOSS]
    assert (loss["failed"], loss["n"]) == (1, 2)


def test_a_capsule_without_a_result_is_told_as_such(author: User, trace: Path) -> None:
    manifest = write(author, trace, condition="True")
    ended = author.run("run", manifest, "--keep-going", "-o", "a.zip")
    assert ended.returncode == 5
    assert "failed (exit) and 2 more: exit code 1" in ended.stderr
    assert "all trials failed; a.zip has no results" in ended.stderr
    assert author.run("check", "a.zip").returncode == 0
    assert author.json("verify", "a.zip", code=3)["verdict"] == "INCONCLUSIVE"
    # nor by runs that succeed
    manifest = write(author, trace, condition="False")
    assert author.run("run", manifest, "-o", "b.zip").returncode == 0
    assert author.json("diff", "a.zip", "b.zip", code=3)["verdict"] == "INCONCLUSIVE"


def test_a_verification_never_stops_for_a_failure(author: User, trace: Path) -> None:
    manifest = write(author, trace, condition="seed > 3")
    assert author.run("run", manifest, "-o", "a.zip").returncode == 0
    ended = author.run("verify", "a.zip")
    assert ended.returncode == 3, ended.stderr
    # six fresh seeds
    assert len(begun(trace)) == 3 + 6


# programs that no kernel executes, each with what the message names
UNFIT = {
    "no #! line": (b"echo 1\n", ["no #! line", "#!/usr/bin/env sh"]),
    "no such interpreter": (b"#!/no/such/interpreter\n", ["/no/such/interpreter"]),
    "line ends of Windows": (b"#!/bin/sh\r\necho 1\r\n", ["carriage return"]),
    "byte order mark": (b"\xef\xbb\xbf#!/bin/sh\necho 1\n", ["byte order mark"]),
    "another machine's": (b"\x7fELF\x02\x01\x01" + bytes(11) + b"\xf3" + bytes(45), ["RISC-V"]),
    "a cut program": (b"\x7fELF", ["Exec format error"]),
}


@pytest.mark.parametrize("kind", UNFIT)
def test_a_program_that_cannot_be_executed_is_tried_once_and_has_failed(
    author: User, kind: str
) -> None:
    data, words = UNFIT[kind]
    program = author.folder / "go"
    program.write_bytes(data)
    program.chmod(0o755)
    benchmark = {"id": "tiny", "command": ["go"], "inputs": ["go"], "metrics": {"loss": {}}}
    write_manifest(author.folder, benchmarks=[benchmark], seeds=[1, 2], claims=[])
    for verb in (["run", "--try", "tiny.json"], ["run", "tiny.json", "--work", "a.run"]):
        ended = author.run(*verb)
        assert ended.returncode == 6, ended.stderr
        assert "was interrupted" not in ended.stderr
        for word in words:
            assert word in " ".join(ended.stderr.split())
    assert [path.name for path in (author.folder / "a.run/starts").iterdir()] == ["0001"]
    ended = author.run("run", "--resume", "a.run", "--keep-going", "-o", "a.zip")
    assert ended.returncode == 5
    assert author.run("check", "a.zip").returncode == 0
    with zipfile.ZipFile(author.folder / "a.zip") as capsule:
        lines = capsule.read("data/results/attempts.jsonl").splitlines()
    attempts = [json.loads(line) for line in lines]
    assert [(one["outcome"], one["reason"]) for one in attempts] == [("failed", "not-started")] * 2


def test_a_later_program_that_is_missing_fails_by_itself(author: User) -> None:
    write_script(author.folder)
    first = {"id": "a", "command": ["python3", "tiny.py"], "inputs": ["tiny.py"]}
    second = {"id": "b", "command": ["no-such-program"]}
    benchmarks = [{**one, "metrics": {"loss": {}}} for one in (first, second)]
    write_manifest(author.folder, benchmarks=benchmarks, seeds=[1], claims=[])
    ended = author.run("run", "tiny.json", "-o", "a.zip")
    assert ended.returncode == 5
    assert "no-such-program" in ended.stderr
    metrics = author.json("show", "a.zip")["metrics"]
    assert (
        metrics["a/default/command/loss"]["n"],
        metrics["b/default/command/loss"]["failed"],
    ) == (1, 1)


def test_what_python_printed_before_it_was_killed_is_not_lost(author: User) -> None:
    write_script(author.folder, "import os\nprint('last words')\nos.kill(os.getpid(), 9)\n")
    ended = author.run("run", write_manifest(author.folder), "--keep-going", "--output", "a.zip")
    assert ended.returncode == 5, ended.stderr
    with zipfile.ZipFile(author.folder / "a.zip") as capsule:
        assert capsule.read("data/logs/0001-stdout.txt") == b"last words\n"
        environment = json.loads(capsule.read("data/records/environment.json"))["environment"]
    assert environment["variables"]["PYTHONUNBUFFERED"] == "1"


def test_a_run_folder_that_is_removed_is_told_as_gone(author: User) -> None:
    write_script(
        author.folder,
        "import shutil\nfrom pathlib import Path\nshutil.rmtree(Path.cwd().parents[2])\n",
    )
    ended = author.run("run", write_manifest(author.folder), "--work", "a.run")
    assert ended.returncode == 5
    message = " ".join(ended.stderr.split())
    assert "a.run: cannot write: the folder was removed during the run" in message
    assert "free some space" not in message
    assert "to resume:" not in message


def test_a_run_that_no_capsule_has_room_for_stops_after_its_first_trial(
    author: User, trace: Path
) -> None:
    note = TRACE.replace("TRACE", repr(str(trace)))
    values = 'with open(os.environ["CAPSULE_RESULTS"], "a") as results:\n    results.writelines('
    values += '\'{"metric": "loss", "value": 0.5, "step": %d}\\n\' % n for n in range(20_000))\n'
    write_script(author.folder, f"{REPORT}{note}{values}")
    ended = author.run("run", write_manifest(author.folder, seeds=list(range(1000))))
    assert ended.returncode == 2
    assert begun(trace) == ["0"]
    assert not list(author.folder.glob("*.zip"))
    assert "error: /benchmarks: reading a capsule of this run would need about" in ended.stderr
    assert "report fewer values" in ended.stderr
