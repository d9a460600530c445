"""`--memory`: what uses more has failed at once, and takes no other trial with it."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.command import NOISY, REPORT, User, write_manifest, write_script

# under one seed it takes 300 MB, keeps them and goes on for ever
GREEDY = (
    "import time\nif seed == 2:\n    kept = bytearray(b'x') * 300_000_000\n    time.sleep(9999)\n"
)
# what is shared counts once: one array, and eight processes that look at it
SHARED = (
    "kept = bytearray(b'x') * 60_000_000\n"
    "for _ in range(8):\n"
    "    if os.fork() == 0:\n"
    "        sum(kept[::4096]); time.sleep(2.5); os._exit(0)\n"
    "for _ in range(8):\n"
    "    os.wait()\n"
)
VALUE = NOISY.removeprefix(REPORT)


def write(author: User, program: str, **changes: object) -> Path:
    write_script(author.folder, f"{REPORT}import time\n{program}{VALUE}")
    return write_manifest(author.folder, **{"seeds": [1, 2, 3], **changes})


def test_a_trial_that_uses_more_has_failed_and_the_others_go_on(author: User) -> None:
    manifest = write(author, GREEDY)
    ended = author.run("run", manifest, "--memory", "200M", "-o", "a.zip")
    assert ended.returncode == 5, ended.stderr
    assert "--memory allows" in ended.stderr
    assert author.run("check", "a.zip").returncode == 0
    shown = author.json("show", "a.zip")
    loss = shown["metrics"]["tiny/default/command/loss"]
    assert (loss["n"], loss["failed"]) == (2, 1)
    screen = " ".join(author.run("show", "a.zip").stdout.split())
    assert "memory limit per process start: 200.0 MiB" in screen


def test_it_is_tried_once(author: User) -> None:
    manifest = write(author, GREEDY.replace("seed == 2", "True"))
    for verb in (["run", "--try"], ["run", "--work", "a.run"]):
        ended = author.run(*verb, manifest, "--memory", "200M")
        assert ended.returncode == 5, ended.stderr
        assert "out-of-memory" in ended.stderr
    assert [path.name for path in (author.folder / "a.run/starts").iterdir()] == ["0001"]
    again = author.run(
        "run", "--resume", "a.run", "--memory", "200M", "--keep-going", "-o", "a.zip"
    )
    assert again.returncode == 5
    assert again.stderr.count("--memory allows") >= 1


def test_what_processes_share_counts_once(author: User) -> None:
    """Eight workers of a loader that share 60 MB do not use 540 MB."""
    ended = author.run("run", write(author, SHARED, seeds=[1]), "--memory", "250M", "-o", "a.zip")
    assert ended.returncode == 0, ended.stderr


def test_pages_of_files_are_not_counted(author: User) -> None:
    program = (
        "import mmap\n"
        "with open('data.bin', 'wb') as stream:\n"
        "    stream.truncate(400_000_000)\n"
        "with open('data.bin', 'rb') as stream:\n"
        "    mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)\n"
        "    sum(mapped[::4096]); time.sleep(2.5)\n"
    )
    ended = author.run("run", write(author, program, seeds=[1]), "--memory", "200M")
    assert ended.returncode == 0, ended.stderr


@pytest.mark.engines
def test_what_the_kernel_kills_for_want_of_memory_is_tried_once(author: User) -> None:
    """In a control group like a batch job's, which counts such kills."""
    v1, v2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    group = (v1 if v1.exists() else v2) / f"capsule-test-job-{os.getpid()}"
    group.mkdir()
    try:
        limit = "memory.limit_in_bytes" if v1.exists() else "memory.max"
        (group / limit).write_text(str(600 << 20))
        write(author, "kept = bytearray(b'x') * 900_000_000\n")
        command = shlex.join(author.argv("run", "tiny.json", "--work", "a.run"))
        ended = subprocess.run(
            ["sh", "-c", f"echo $$ > {group}/cgroup.procs; exec {command}"],
            cwd=author.folder,
            env=author.environment(),
            capture_output=True,
            text=True,
            timeout=author.patience_seconds,
            check=False,
        )
    finally:
        group.rmdir()
    assert ended.returncode == 5, ended.stderr
    assert "oom_kill count of the control group: 0 before, 1 now" in ended.stderr
    assert " interrupted (" not in ended.stderr
    assert [path.name for path in (author.folder / "a.run/starts").iterdir()] == ["0001"]


@pytest.mark.parametrize("typed", ["0", "much", "1Q"])
def test_a_size_that_is_none_is_refused(author: User, typed: str) -> None:
    assert author.run("run", "tiny.json", "--memory", typed).returncode == 2
