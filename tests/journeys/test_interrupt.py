"""Ctrl-C, SIGTERM and SIGHUP: the command says how it goes on, and that command does."""

import os
import pty
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from capsule import process
from capsule.execute.workspace import Workspace
from tests.support.command import User, write_manifest
from tests.support.patience import PATIENCE_SECONDS

# a workload that waits for as long as there is a certain file
SCRIPT = """
if [ -e {hold} ]; then
    echo $$ > {hold}.pid.new && mv {hold}.pid.new {hold}.pid
    : > "$CAPSULE_OUT/under-way"
    while [ -e {hold} ]; do sleep 0.05; done
fi
printf '{{"metric": "loss", "value": 1.%s}}\\n' "$CAPSULE_SEED" >> "$CAPSULE_RESULTS"
"""


@pytest.fixture
def hold(author: User) -> Path:
    """While it exists, workloads wait."""
    hold = author.home / "hold"
    (author.folder / "tiny.sh").write_text(SCRIPT.format(hold=shlex.quote(str(hold))))
    benchmark = {
        "id": "tiny",
        "command": ["sh", "tiny.sh"],
        "inputs": ["tiny.sh"],
        "metrics": {"loss": {"direction": "lower"}},
    }
    claim = {
        "metric": "tiny/default/command/loss",
        "type": "equivalence",
        "margin": {"absolute": 5},
    }
    write_manifest(author.folder, seeds=[1, 2, 3], benchmarks=[benchmark], claims=[claim])
    return hold


def start(user: User, *words: str | Path) -> subprocess.Popen[str]:
    """Start a command, and return when its first workload is under way."""
    running = user.start(*words)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not list(user.folder.glob("*.run/starts/*/out/under-way")):
        assert running.poll() is None, user.talk.read_text()
        assert time.monotonic() < deadline, "waited in vain for the first workload"
        time.sleep(0.02)
    return running


def interrupt(user: User, number: signal.Signals, *words: str | Path) -> tuple[int, str]:
    """Start a command, interrupt its first workload, and return its exit code and last line."""
    running = start(user, *words)
    running.send_signal(number)
    code = running.wait(PATIENCE_SECONDS)
    return code, user.talk.read_text().splitlines()[-1]


def way_on(line: str) -> list[str]:
    """The words of the command that the last line names, without `capsule`."""
    program, *words = shlex.split(line.removeprefix("interrupted; to resume: "))
    assert program == "capsule"
    return words


def test_an_interrupted_run_names_the_command_that_goes_on(author: User, hold: Path) -> None:
    hold.touch()
    words = ("run", "tiny.json", "--output", "my capsule.zip")
    code, line = interrupt(author, signal.SIGINT, *words)
    assert code == 130
    (folder,) = author.folder.glob("*.run")
    assert way_on(line) == ["run", "--resume", folder.name, "--output", "my capsule.zip"]
    hold.unlink()
    ended = author.run(*way_on(line))
    assert ended.returncode == 0, ended.stderr
    assert author.run("check", "my capsule.zip").returncode == 0


def test_one_that_is_told_to_end_again_and_again_ends_as_if_told_once(
    author: User, hold: Path
) -> None:
    """By Slurm and by a script in its job, for one."""
    hold.touch()
    running = start(author, "run", "tiny.json")
    while running.poll() is None:
        running.send_signal(signal.SIGTERM)
    # what comes at the very end ends the process by itself
    assert running.returncode in {143, -signal.SIGTERM}
    talk = author.talk.read_text()
    assert "Traceback" not in talk
    assert way_on(talk.splitlines()[-1])[:2] == ["run", "--resume"]
    (folder,) = author.folder.glob("*.run")
    assert process.find_marked(Workspace.open(folder).label) == []


def test_an_interrupted_verification_names_the_command_that_goes_on(
    author: User, stranger: User, hold: Path
) -> None:
    assert author.run("run", "tiny.json", "--output", "a.zip").returncode == 0
    capsule = author.folder / "a.zip"
    hold.touch()
    words = ("verify", capsule, "--trust", "--allow-host", "--runs", "3")
    code, line = interrupt(stranger, signal.SIGTERM, *words)
    assert code == 143
    hold.unlink()
    ended = stranger.run(*way_on(line))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (rerun,) = stranger.folder.glob("*.verification.zip")
    assert len(stranger.json("show", rerun)["metrics"]["tiny/default/command/loss"]["runs"]) == 3


def await_workload(running: subprocess.Popen[str], hold: Path) -> int:
    """The process id of the first workload, once it is under way."""
    path = hold.with_name("hold.pid")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not path.exists():
        assert running.poll() is None, "it ended before its workload began"
        assert time.monotonic() < deadline, "waited in vain for the first workload"
        time.sleep(0.02)
    return int(path.read_text())


def lives(pid: int) -> bool:
    """Whether a process has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("verb", [["run"], ["run", "--try"]])
def test_a_hangup_ends_the_workload(author: User, hold: Path, verb: list[str]) -> None:
    hold.touch()
    running = author.start(*verb, "tiny.json")
    workload = await_workload(running, hold)
    # a shell hands on to its jobs what its terminal has sent to them already
    running.send_signal(signal.SIGHUP)
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE_SECONDS) == 129
    assert not lives(workload)
    last = author.talk.read_text().splitlines()[-1]
    assert last.startswith("interrupted")
    if "--try" in verb:
        assert "to resume" not in last
        assert sorted(path.name for path in author.folder.iterdir() if path.is_dir()) == []
    else:
        assert way_on(last)[:2] == ["run", "--resume"]


def test_a_hangup_ends_a_verification(author: User, stranger: User, hold: Path) -> None:
    assert author.run("run", "tiny.json", "--output", "a.zip").returncode == 0
    hold.touch()
    words = ("verify", author.folder / "a.zip", "--trust", "--allow-host", "--runs", "3")
    code, line = interrupt(stranger, signal.SIGHUP, *words)
    assert code == 129
    assert "--resume" in way_on(line)


def test_nohup_keeps_a_run_going(author: User, hold: Path) -> None:
    hold.touch()
    with author.talk.open("w") as talk:
        running = subprocess.Popen(
            ["nohup", *author.argv("run", "tiny.json", "--output", "a.zip")],
            cwd=author.folder,
            env=author.environment(),
            stdout=talk,
            stderr=talk,
            stdin=subprocess.DEVNULL,
            text=True,
        )
    workload = await_workload(running, hold)
    running.send_signal(signal.SIGHUP)
    assert lives(workload)
    hold.unlink()
    assert running.wait(PATIENCE_SECONDS) == 0, author.talk.read_text()


def test_a_closed_terminal_ends_the_run_and_leaves_its_folder(author: User, hold: Path) -> None:
    """Whatever is printed after that cannot be written, which must not hide why it ended."""
    hold.touch()
    outer, inner = pty.openpty()
    running = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *author.argv("run", "tiny.json")],
        cwd=author.folder,
        env=author.environment(),
        stdin=inner,
        stdout=inner,
        stderr=inner,
        text=True,
        start_new_session=True,
    )
    os.close(inner)
    workload = await_workload(running, hold)
    os.close(outer)
    assert running.wait(PATIENCE_SECONDS) == 129
    assert not lives(workload)
    hold.unlink()
    (folder,) = author.folder.glob("*.run")
    assert author.run("run", "--resume", folder.name).returncode == 0


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--image", "docker://debian:12"),
        ("--runtime", "host"),
        ("--work", "b.run"),
        ("--keep-hosts", None),
        ("--frameworks", "numpy"),
        ("--dry-run", None),
        ("--try", None),
    ],
)
def test_what_a_run_was_begun_with_is_not_asked_for_again(
    author: User, option: str, value: str | None
) -> None:
    words = [option, value] if value else [option]
    ended = author.run("run", "--resume", "a.run", *words)
    assert ended.returncode == 2
    assert f"--resume and {option} exclude each other" in ended.stderr


@pytest.mark.parametrize("words", [["--runs", "3"], ["--levels", "own"], ["--runtime", "docker"]])
def test_what_a_verification_was_begun_with_is_not_asked_for_again(
    author: User, words: list[str]
) -> None:
    ended = author.run("verify", "a.zip", "--resume", "a.run", *words)
    assert ended.returncode == 2
    assert f"--resume and {words[0]} exclude each other" in ended.stderr
