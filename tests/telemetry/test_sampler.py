"""The loop of a sampler under a virtual clock, and samplers that run, die and hang."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from capsule.runtimes.base import GpuShare, Invocation, Running
from capsule.runtimes.host import Host
from capsule.telemetry import sampler, sources, trace, watched
from capsule.telemetry.sampler import Request
from capsule.telemetry.sources import Facts, Sample
from tests.support import nvml

CARD = Facts(device="0000:3b:00.0", source="nvml")


@dataclass
class Clock:
    """A clock that only waiting and slow readings move."""

    now: float = 100.0
    said: dict[float, str | None] = field(default_factory=dict)

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> Sequence[str] | None:
        due = self.now + seconds
        for moment in sorted(self.said):
            if moment <= due:
                self.now = max(self.now, moment)
                word = self.said.pop(moment)
                return None if word is None else [word]
        self.now = due
        return []


@dataclass
class Slow:
    """A device whose reading takes so long."""

    clock: Clock
    seconds: Iterator[float]
    facts: Facts = CARD

    def read(self) -> Sample:
        self.clock.now += next(self.seconds, 0.0)
        return Sample(power_watts=70.0)


def run(clock: Clock, *devices: Slow) -> list[list[object]]:
    lines: list[list[object]] = []
    ready: list[int] = []

    def write(line: object) -> None:
        assert isinstance(line, list)
        lines.append(line)

    sampler.run(devices, write, clock, clock.wait, lambda: ready.append(len(lines)))
    assert ready == [len(devices)]
    return lines


def test_samples_come_ten_times_a_second_and_at_once_after_a_mark() -> None:
    clock = Clock(said={100.25: "begin 100.24", 100.56: "end 100.555"})
    lines = run(clock, Slow(clock, iter(())))
    times = [line[0] for line in lines if len(line) > 2]
    expected = [100.0, 100.1, 100.2, 100.25, 100.3, 100.4, 100.5, 100.56]
    assert times == pytest.approx(expected)
    assert [line for line in lines if len(line) == 2] == [["begin", "100.24"], ["end", "100.555"]]
    # the last sample comes after the end
    assert lines[-2] == ["end", "100.555"]
    assert lines[-1][1:] == [0, *Sample(power_watts=70.0)]


def test_a_slow_reading_leaves_out_turns_and_catches_up_with_none() -> None:
    clock = Clock(said={100.95: None})
    lines = run(clock, Slow(clock, iter((0.0, 0.45))))
    times = [line[0] for line in lines]
    assert times == pytest.approx([100.0, 100.1, 100.6, 100.7, 100.8, 100.9])


def test_every_device_is_read_in_every_turn() -> None:
    clock = Clock(said={100.15: None})
    lines = run(clock, Slow(clock, iter(())), Slow(clock, iter(())))
    assert [line[1] for line in lines] == [0, 1, 0, 1]


def test_commands_may_come_in_pieces() -> None:
    reading, writing = os.pipe()
    commands = sampler.Commands(reading)
    assert commands(0.0) == []
    os.write(writing, b"begin 1")
    assert commands(0.0) == []
    os.write(writing, b".5\nend 2\n")
    assert commands(0.0) == ["begin 1.5", "end 2"]
    os.close(writing)
    assert commands(0.0) is None
    os.close(reading)


# processes


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library for programs that are started; the folder that it lies in."""
    folder = tmp_path / "library"
    folder.mkdir()
    install(folder, monkeypatch)
    return folder


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, **facts: object) -> None:
    for name, value in nvml.install(folder, facts).items():
        monkeypatch.setenv(name, value)


def request(folder: Path) -> Request:
    return Request(
        path=str(folder / "trace.jsonl"),
        vendor="nvidia",
        names=("0",),
        has_packages=False,
        label="label",
        ancestor=os.getpid(),
    )


def begin(folder: Path) -> watched.Sampler:
    one = watched.Sampler(request(folder))
    one.wait_until_ready(60.0)
    return one


def is_over(one: watched.Sampler, process: subprocess.Popen[bytes]) -> bool:
    return one._process is None and process.poll() is not None


def process_of(one: watched.Sampler) -> subprocess.Popen[bytes]:
    assert one._process is not None
    return one._process


def test_a_sampler_samples_from_before_the_begin_until_after_the_end(
    variables: Path, tmp_path: Path
) -> None:
    one = begin(tmp_path)
    process = process_of(one)
    one.mark("begin")
    one.stop()
    one.stop()
    assert process.returncode == 0
    found = trace.read(tmp_path / "trace.jsonl")
    (track,) = found.tracks
    assert found.began is not None
    assert found.ended is not None
    assert track.times[0] <= found.began <= found.ended <= track.times[-1]
    assert track.facts.device == "0000:3b:00.0"
    assert set(track.columns["power_watts"]) == {70.0}
    assert set(track.columns["own"]) == set(track.columns["others"]) == {0.0}


@pytest.mark.parametrize("fault", ["die", "hang"])
def test_a_sampler_that_dies_or_hangs_ends_and_keeps_what_it_had(
    variables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    install(variables, monkeypatch, temperature=fault)
    monkeypatch.setattr(watched, "_LAST_SAMPLE_SECONDS", 0.3)
    one = begin(tmp_path)
    process = process_of(one)
    one.mark("begin")
    if fault == "die":
        assert process.wait(60) == 9
        one.mark("begin")
    one.stop()
    assert is_over(one, process)
    assert process.returncode == (9 if fault == "die" else -signal.SIGKILL)
    found = trace.read(tmp_path / "trace.jsonl")
    assert len(found.tracks[0].times) == 1


def test_a_sampler_that_never_gets_ready_holds_nobody_up(
    variables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (variables / "pynvml.py").write_text("import os\nos.read(os.pipe()[0], 1)\n")
    monkeypatch.setattr(watched, "_LAST_SAMPLE_SECONDS", 0.1)
    one = watched.Sampler(request(tmp_path))
    process = process_of(one)
    one.wait_until_ready(0.1)
    one.stop()
    assert process.returncode == -signal.SIGKILL
    assert trace.read(tmp_path / "trace.jsonl").tracks == ()


def test_a_sampler_outlives_nobody_who_started_it(variables: Path, tmp_path: Path) -> None:
    """Its input ends when whoever started it is killed, whatever the trace says by then."""
    code = (
        "import os, sys\nfrom capsule.telemetry import watched\n"
        "from capsule.telemetry.sampler import Request\n"
        "one = watched.Sampler(Request.from_word(sys.argv[1]))\none.wait_until_ready(60)\n"
        "print(one._process.pid, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, request(tmp_path).to_word()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    pid = int(ended.stdout)
    descriptor = None
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    assert waiting.poll(60_000)
    os.close(descriptor)


def test_a_sampler_that_cannot_start_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    one = watched.Sampler(request(tmp_path))
    one.wait_until_ready(0.0)
    one.mark("begin")
    one.stop()


# workloads


def workload(folder: Path, *command: str, gpus: int = 1) -> Invocation:
    return Invocation(
        command=command,
        environment={},
        mounts=(),
        cwd=str(folder),
        gpus=GpuShare(count=gpus),
        label="label",
        stdout=folder / "stdout.txt",
        stderr=folder / "stderr.txt",
        telemetry=folder / "telemetry.jsonl",
    )


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, variables: Path) -> None:
    """A machine with one card that the library alone shows."""
    monkeypatch.setitem(sys.modules, "pynvml", nvml.FakeNvml(nvml.Card()))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)


def start(invocation: Invocation) -> Running:
    samplers = watched.begin([invocation])
    return watched.start(Host(), Host().prepare(None, cache=Path()), invocation, *samplers)


@pytest.mark.parametrize("end", ["by itself", "SIGKILL", "stopped", "not started"])
def test_the_trace_has_both_ends_however_a_workload_ends(
    machine: None, tmp_path: Path, end: str
) -> None:
    commands = {
        "by itself": ("true",),
        "SIGKILL": ("sh", "-c", "kill -9 $$"),
        "stopped": ("sleep", "600"),
        "not started": ("no-such-program",),
    }
    running = start(workload(tmp_path, *commands[end]))
    if end == "stopped":
        running.stop()
    ended = running.wait(60.0)
    assert ended is not None
    found = trace.read(tmp_path / "telemetry.jsonl")
    assert found.began is not None
    assert found.ended is not None
    assert found.began <= found.ended
    assert len(found.tracks[0].times) >= 2


def test_nothing_is_sampled_where_there_is_nothing_to_sample(
    machine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "find_packages", lambda root: [])
    without = workload(tmp_path, "true", gpus=0)
    assert watched.begin([without], tmp_path) == [None]
    assert watched.begin([workload(tmp_path, "true", gpus=3)], Path("/")) == [None]
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    assert watched.begin([workload(tmp_path, "true")]) == [None]


def test_a_request_is_one_word() -> None:
    wanted = request(Path("/a b"))
    assert Request.from_word(wanted.to_word()) == wanted
    assert json.loads(wanted.to_word())["names"] == ["0"]
