"""What a launcher starts for each rank, while its node asks it to end."""

from __future__ import annotations

import os
import secrets
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import process
from capsule.launch.folder import Call, LaunchFolder
from capsule.launch.rank import END
from capsule.runtimes.base import Ended, GpuShare, Prepared, Scratch
from capsule.runtimes.host import Host
from capsule.runtimes.scratch import choose, clear, make
from capsule.telemetry import trace
from tests.support import nvml
from tests.support.launches import TAKEN, WAITS, label, ranks
from tests.support.patience import PATIENCE_SECONDS, read_lines

FAILED = Ended(exit_code=3, signal=None)


def start(
    folder: Path,
    script: str,
    scratch: Scratch | None = None,
    memory: int | None = None,
    telemetry: Path | None = None,
) -> tuple[LaunchFolder, subprocess.Popen[bytes]]:
    launched = LaunchFolder.create(folder / "launch")
    gpus = GpuShare(count=0 if telemetry is None else 1)
    invocation = replace(
        ranks(folder, script)[0], scratch=scratch, memory=memory, telemetry=telemetry, gpus=gpus
    )
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


def test_one_asked_faster_than_it_can_hear_says_how_its_rank_ended(tmp_path: Path) -> None:
    launched, wrapper = start(tmp_path, "echo $$ >part; mv part there; exit 3")
    rank = Path("/proc", read_lines(tmp_path / "there")[0])
    while rank.exists():
        pass
    flood = subprocess.Popen(["bash", "-c", f"while kill -URG {wrapper.pid}; do :; done"])
    while wrapper.poll() is None:
        for _ in range(1000):
            os.kill(wrapper.pid, END)
    flood.wait()
    assert launched.ends()[0] in {FAILED, TAKEN}
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


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_rank_samples_its_device_until_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_asked: bool
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    for name, value in nvml.install(library).items():
        monkeypatch.setenv(name, value)
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
    script = WAITS if is_asked else "echo >>there; exit 3"
    launched, wrapper = start(tmp_path, script, telemetry=tmp_path / "telemetry.jsonl")
    read_lines(tmp_path / "there")
    if is_asked:
        wrapper.send_signal(END)
    assert wrapper.wait(PATIENCE_SECONDS) == 0
    assert launched.ends() == {0: TAKEN if is_asked else FAILED}
    found = trace.read(tmp_path / "telemetry.jsonl")
    assert found.began is not None
    assert found.ended is not None
    assert found.began < found.ended
    assert len(found.tracks[0].times) >= 2
    assert not process.find_marked(label(tmp_path))


def test_a_rank_that_uses_more_memory_than_it_may_is_ended(tmp_path: Path) -> None:
    program = "import os, time; kept = os.urandom(300_000_000); time.sleep(999)"
    greedy = f"exec {sys.executable} -c '{program}'"
    launched, wrapper = start(tmp_path, greedy, memory=100 << 20)
    assert wrapper.wait(PATIENCE_SECONDS) == 0
    ended = launched.ends()[0]
    assert (ended.over_memory, ended.signal) == (True, signal.SIGKILL)
    assert "--memory allows" in ended.memory
    assert not process.find_marked(label(tmp_path))


SHOWS = 'printf "%s\\n" "$HOME" >>homes; touch "$TMPDIR/left" "$HOME/left"'


@pytest.mark.parametrize(
    ("scratch", "script", "stays"),
    [
        (Scratch(start=1), SHOWS, False),
        (Scratch(start=1), f"{SHOWS}; exit 3", False),
        (Scratch(start=1), f"{SHOWS}; kill -9 $$", False),
        (Scratch(start=1, is_last=False), SHOWS, True),
        (Scratch(start=1, is_last=False), f"{SHOWS}; exit 3", False),
        (Scratch(start=1, rank=4095), f"{SHOWS}; mkdir -m 0 $HOME/locked", False),
    ],
)
def test_a_rank_has_its_home_on_its_own_node(
    tmp_path: Path, scratch: Scratch, script: str, stays: bool
) -> None:
    launched, wrapper = start(tmp_path, script, scratch)
    assert wrapper.wait() == 0
    (home,) = map(Path, (tmp_path / "homes").read_text().splitlines())
    assert len(str(home)) <= 40
    assert (home.parent.exists(), (home / "left").exists()) == (stays, stays)
    assert [*Host().scratch(label(tmp_path))] == ([home.parent] if stays else [])
    Host().reap(label(tmp_path))
    assert not home.parent.exists()
    assert launched.ends()


def test_another_start_on_a_node_removes_what_the_last_one_left(tmp_path: Path) -> None:
    name = label(tmp_path)
    left = [
        make(name, Scratch(start=start, rank=rank)) for start, rank in ((1, 0), (1, 1), (16, 0))
    ]
    other = make(f"{name}-other", Scratch(start=1))
    now = make(name, Scratch(start=2, rank=0))
    beside = make(name, Scratch(start=2, rank=1))
    assert [one.top.exists() for one in (*left, now, beside, other)] == [False] * 3 + [True] * 3
    again = make(name, Scratch(start=2, rank=0, is_first=False))
    (again.temporary / "checkpoint").touch()
    assert make(name, Scratch(start=2, rank=0, is_first=False)) == now
    assert (now.temporary / "checkpoint").exists()
    make(name, Scratch(start=2, rank=0))
    assert not (now.temporary / "checkpoint").exists()
    clear(name)
    clear(f"{name}-other")
    assert not any(one.top.exists() for one in (now, beside, other))


def test_a_folder_of_somebody_elses_is_not_taken(tmp_path: Path) -> None:
    first, second = (one.top for one in choose("a label", Scratch(start=1))[:2])
    first.symlink_to(tmp_path)
    (tmp_path / "kept").touch()
    try:
        own = make("a label", Scratch(start=1, is_first=False))
        assert own.top == second
        # one's own link is removed, and nothing through it
        assert make("a label", Scratch(start=1)).top == first
        assert not first.is_symlink()
    finally:
        clear("a label")
    assert (tmp_path / "kept").exists()


@pytest.mark.parametrize("length", [15, 22, 25, 80])
def test_a_folder_that_is_asked_for_is_taken_where_it_is_short(
    monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    asked = Path("/tmp", secrets.token_hex(40)[: length - len("/tmp/")])
    asked.mkdir()
    monkeypatch.setenv("TMPDIR", str(asked))
    try:
        own = make("a name", Scratch(start=31))
        assert (own.top.parent == asked) == (length < 25)
        assert len(str(own.home)) <= 40
        assert stat.S_IMODE(own.top.stat().st_mode) == 0o700
    finally:
        clear("a name")
        asked.rmdir()
