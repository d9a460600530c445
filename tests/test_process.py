"""process: one command, and nothing left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from capsule import process
from capsule.errors import CannotRunError, ExecutionError
from tests.support.patience import PATIENCE_SECONDS, read_lines, until

ENV = {"PATH": os.environ["PATH"]}


def start(folder: Path, *argv: str, env: dict[str, str] = ENV) -> process.Process:
    return process.start(argv, env=env, cwd=folder, stdout=folder / "out", stderr=folder / "err")


def alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def test_streams_go_to_their_files_and_are_appended(tmp_path: Path) -> None:
    for _ in range(2):
        ended = start(tmp_path, "sh", "-c", "echo one; echo two >&2").wait(PATIENCE_SECONDS)
        assert ended == process.Exit(code=0, signal=None)
    assert (tmp_path / "out").read_text() == "one\none\n"
    assert (tmp_path / "err").read_text() == "two\ntwo\n"


def test_output_larger_than_any_pipe_does_not_block(tmp_path: Path) -> None:
    program = "import sys; sys.stderr.write('x' * 1_000_000); sys.stdout.write('y' * 1_000_000)"
    assert start(tmp_path, sys.executable, "-c", program).wait(PATIENCE_SECONDS) == process.Exit(
        code=0, signal=None
    )
    assert (tmp_path / "err").stat().st_size == (tmp_path / "out").stat().st_size == 1_000_000


@pytest.mark.parametrize("code", [0, 1, 127, 137, 255])
def test_an_exit_code_is_not_a_signal(tmp_path: Path, code: int) -> None:
    assert start(tmp_path, "sh", "-c", f"exit {code}").wait(PATIENCE_SECONDS) == process.Exit(
        code=code, signal=None
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_signal_is_not_an_exit_code(tmp_path: Path, number: signal.Signals) -> None:
    assert start(tmp_path, "sh", "-c", f"kill -{number} $$").wait(PATIENCE_SECONDS) == process.Exit(
        code=None, signal=number
    )


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGPIPE])
def test_a_signal_that_the_caller_ignores_still_ends_what_it_starts(
    tmp_path: Path, number: signal.Signals
) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        running = start(tmp_path, "sh", "-c", f"kill -{int(number)} $$; echo survived")
        ended = running.wait(PATIENCE_SECONDS)
    finally:
        signal.signal(number, before)
    assert ended == process.Exit(code=None, signal=number)


def test_wait_answers_none_while_it_runs_and_the_same_afterwards(tmp_path: Path) -> None:
    running = start(tmp_path, "sleep", "600")
    assert running.wait(0) is None
    assert running.stop().signal == signal.SIGTERM
    assert running.wait(0) == running.stop() == process.Exit(code=None, signal=signal.SIGTERM)


def test_stop_ends_children_that_ignore_it_or_left_the_session(tmp_path: Path) -> None:
    program = (
        "trap '' TERM; (trap '' TERM; echo $$ >> pids; sleep 600) &"
        " setsid sh -c 'echo $$ >> pids; sleep 600' & echo $$ >> pids; wait; sleep 600"
    )
    running = start(tmp_path, "sh", "-c", program)
    pids = [int(line) for line in read_lines(tmp_path / "pids", 3)]
    assert all(alive(pid) for pid in pids)
    assert running.stop(grace_seconds=0.1).signal == signal.SIGKILL
    assert not any(alive(pid) for pid in pids)


def test_what_a_program_leaves_in_the_background_ends_with_it(tmp_path: Path) -> None:
    running = start(tmp_path, "sh", "-c", "setsid sh -c 'echo $$ > pid; sleep 600' & sleep 0.3")
    (pid,) = read_lines(tmp_path / "pid")
    assert running.wait(PATIENCE_SECONDS) == process.Exit(code=0, signal=None)
    assert not alive(int(pid))


def test_the_environment_is_whole_and_exact(tmp_path: Path) -> None:
    value = "a\"b'c$HOME`id`\\,\n=é"
    env = {**ENV, "ODD": value, "EMPTY": ""}
    assert start(tmp_path, "env", "-0", env=env).wait(PATIENCE_SECONDS) is not None
    items = (tmp_path / "out").read_text().split("\0")
    variables = dict(item.split("=", 1) for item in items if item)
    assert len(variables.pop("CAPSULE_START")) == 32
    assert variables == env


@pytest.mark.parametrize("argv", [("no-such-program",), ("/etc/passwd",), ("echo", "a\0b")])
def test_what_cannot_be_started_is_named(tmp_path: Path, argv: tuple[str, ...]) -> None:
    with pytest.raises(CannotRunError, match=argv[0]):
        start(tmp_path, *argv)


@pytest.mark.engines
def test_a_kill_for_want_of_memory_is_told_from_any_other(tmp_path: Path) -> None:
    v1, v2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    group = (v1 if v1.exists() else v2) / f"capsule-test-{os.getpid()}"
    group.mkdir()
    try:
        limit = "memory.limit_in_bytes" if v1.exists() else "memory.max"
        (group / limit).write_text(str(64 << 20))
        program = (
            f"echo $$ > {group}/cgroup.procs; exec '{sys.executable}' -c 'bytearray(400 << 20)'"
        )
        ended = start(tmp_path, "sh", "-c", program).wait(PATIENCE_SECONDS)
        assert ended == process.Exit(code=None, signal=signal.SIGKILL, out_of_memory=True)
        ended = start(tmp_path, "sh", "-c", "kill -9 $$").wait(PATIENCE_SECONDS)
        assert ended == process.Exit(code=None, signal=signal.SIGKILL, out_of_memory=False)
    finally:
        group.rmdir()


def test_run_hands_input_in_and_keeps_the_streams_apart() -> None:
    ended = process.run(["sh", "-c", "cat; echo no >&2; exit 3"], input_bytes=b"\xff\x00yes")
    assert ended == process.Completed(
        stdout=b"\xff\x00yes", stderr=b"no\n", exit_code=3, signal=None
    )


def test_run_ends_what_takes_too_long() -> None:
    label = f"slow-{os.getpid()}"
    with pytest.raises(ExecutionError, match=r"sh did not end within 0\.5 s"):
        process.run(
            ["sh", "-c", "sleep 600 & sleep 600"],
            env={**ENV, process.RUN_MARK: label},
            timeout_seconds=0.5,
        )
    assert process.find_marked(label) == []


def test_run_refuses_an_answer_that_is_too_long() -> None:
    with pytest.raises(ExecutionError, match="more than 10 bytes"):
        process.run(["printf", "%020d", "1"], limit_bytes=10)


def test_reap_ends_what_a_killed_parent_left_and_nothing_else(tmp_path: Path) -> None:
    parent = (
        "import sys; from pathlib import Path; from capsule import process\n"
        "env = {'PATH': sys.argv[1], 'CAPSULE_RUN': sys.argv[2]}\n"
        "out = Path('out')\n"
        "command = ['sh', '-c', 'sleep 600 & echo $$ >> pids; echo $! >> pids; wait']\n"
        "process.start(command, env=env, cwd=Path.cwd(), stdout=out, stderr=out).wait(600)\n"
    )
    label, other = f"dead-{os.getpid()}", f"dead-{os.getpid()}-other"
    root = str(Path(process.__file__).parents[1])
    dead = subprocess.Popen(
        [sys.executable, "-c", parent, ENV["PATH"], label],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
    )
    pids = [int(line) for line in read_lines(tmp_path / "pids", 2)]
    bystander = start(tmp_path, "sleep", "600", env={**ENV, "CAPSULE_RUN": other})
    dead.kill()
    dead.wait()
    assert sorted(process.find_marked(label)) == sorted(pids)
    assert process.reap(label) == 2
    # what is ending has no environment any more, a moment before it is gone
    until(lambda: not any(map(alive, pids)), "both to be gone")
    assert bystander.wait(0) is None
    assert process.reap(other) == 1
    assert bystander.wait(PATIENCE_SECONDS) == process.Exit(code=None, signal=signal.SIGTERM)


HEADLESS = """
import ctypes, os, threading, time
def last():
    open("ready", "w").write(f"{os.getpid()}\\n")
    time.sleep(600)
if os.fork() == 0:
    os.setsid()
    threading.Thread(target=last).start()
    while not os.path.exists("ready"):
        time.sleep(0.001)
    ctypes.CDLL(None).pthread_exit(None)
time.sleep(600)
"""


@pytest.mark.parametrize("end", ["stop", "reap"])
def test_a_process_whose_first_thread_has_ended_is_ended_too(tmp_path: Path, end: str) -> None:
    label = f"headless-{os.getpid()}"
    env = {**ENV, process.RUN_MARK: label}
    running = start(tmp_path, sys.executable, "-c", HEADLESS, env=env)
    (pid,) = (int(line) for line in read_lines(tmp_path / "ready"))
    # such a process says that it is a zombie, as many a Go program does while it ends
    until(lambda: not alive(pid), "its first thread to end")
    assert pid in process.find_marked(label)
    if end == "stop":
        running.stop()
    else:
        assert process.reap(label) == 2
        assert running.wait(PATIENCE_SECONDS) is not None
    until(lambda: not Path(f"/proc/{pid}/task").exists(), "it to be gone")


def test_reap_spares_the_process_that_asks_and_its_ancestors(tmp_path: Path) -> None:
    program = "from capsule import process; print(process.find_marked('mine'))"
    ended = process.run(
        ["sh", "-c", f'"{sys.executable}" -c "{program}"; exit 0'],
        env={
            **ENV,
            "CAPSULE_RUN": "mine",
            "PYTHONPATH": str(Path(process.__file__).parents[1]),
        },
    )
    assert ended.stdout == b"[]\n"


def test_a_start_that_is_interrupted_leaves_nothing_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(Exception):
        """What a handler raises."""

    def interrupt(_number: int, _frame: object) -> None:
        raise Interrupted

    def spawn(*words: Any, **more: Any) -> Any:
        made = popen(*words, **more)
        # it runs, and nobody knows of it yet
        signal.raise_signal(signal.SIGHUP)
        return made

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", spawn)
    before = signal.signal(signal.SIGHUP, interrupt)
    mark = f"test-{tmp_path}"
    try:
        with pytest.raises(Interrupted):
            process.start(
                ("sleep", "1000"),
                env={**os.environ, process.RUN_MARK: mark},
                cwd=tmp_path,
                stdout=tmp_path / "out",
                stderr=tmp_path / "err",
            )
        assert signal.getsignal(signal.SIGHUP) is interrupt
    finally:
        signal.signal(signal.SIGHUP, before)
    assert not process.find_marked(mark)
