"""The file that a script imports to report and to time: in processes that end as they may."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import capsule.levels.library as library
from capsule.levels.library import capsule_regions

FOLDER = Path(library.__file__).parent
HEAD = "from capsule_regions import flush, region, report\n"

Line = dict[str, Any]


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts a script that can import the library, and nothing else of capsule."""

    def start(text: str, *, results: str | None = "results.jsonl") -> subprocess.Popen[str]:
        named = {} if results is None else {"CAPSULE_RESULTS": str(tmp_path / results)}
        return subprocess.Popen(
            [sys.executable, "-c", HEAD + text],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(FOLDER), **named},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


Start = Callable[..., subprocess.Popen[str]]


def end(process: subprocess.Popen[str], code: int = 0) -> str:
    """What it said on standard error."""
    _, words = process.communicate()
    assert process.returncode == code, words
    return words


def lines(folder: Path) -> list[Line]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def names(folder: Path) -> list[str]:
    return [line["metric"] for line in lines(folder)]


def test_numbers_are_lines_of_the_protocol(script: Start, tmp_path: Path) -> None:
    end(
        script(
            "class Scalar:\n"
            "    def __float__(self): return 0.5\n"
            "report('loss', 1, step=0)\n"
            "report('loss', Scalar(), step=Scalar())\n"
            "report('loss', 2.5, step=3)\n"
            "report('rate', float('inf'))\n"
        )
    )
    assert (tmp_path / "results.jsonl").read_text().splitlines() == [
        '{"metric": "loss", "value": 1.0, "step": 0}',
        '{"metric": "loss", "value": 0.5, "step": 0.5}',
        '{"metric": "loss", "value": 2.5, "step": 3}',
        '{"metric": "rate", "value": Infinity}',
    ]


def test_regions_are_nested_and_entered_again(script: Start, tmp_path: Path) -> None:
    end(
        script(
            "@region('io')\n"
            "def fall(depth):\n"
            "    return depth and fall(depth - 1)\n"
            "outer = region('epoch')\n"
            "with outer, outer, region('batch'):\n"
            "    assert fall(2) == 0\n"
        )
    )
    assert sorted(names(tmp_path)) == ["batch_time"] + 2 * ["epoch_time"] + 3 * ["io_time"]
    times: dict[str, list[float]] = {}
    for line in lines(tmp_path):
        times.setdefault(line["metric"], []).append(line["value"])
    inner, outer = times["epoch_time"]
    # in the order of their ends, and each holds what ran inside it
    assert outer >= inner >= times["batch_time"][0] >= times["io_time"][2]
    assert times["io_time"] == sorted(times["io_time"])
    assert times["io_time"][0] > 0


def test_a_region_left_by_an_exception_counts(script: Start, tmp_path: Path) -> None:
    assert "ZeroDivisionError" in end(script("with region('batch'): 1 / 0\n"), 1)
    assert names(tmp_path) == ["batch_time"]


def test_threads_time_one_region_side_by_side(script: Start, tmp_path: Path) -> None:
    end(
        script(
            "import threading\n"
            "@region('batch')\n"
            "def work(): report('loss', 1)\n"
            "def many():\n"
            "    for _ in range(200):\n"
            "        work()\n"
            "        with region('io'): pass\n"
            "        flush()\n"
            "threads = [threading.Thread(target=many) for _ in range(4)]\n"
            "for thread in threads: thread.start()\n"
            "for thread in threads: thread.join()\n"
        )
    )
    kept = names(tmp_path)
    assert {name: kept.count(name) for name in set(kept)} == dict.fromkeys(
        ("batch_time", "io_time", "loss"), 800
    )


def test_a_killed_script_has_reported_and_a_terminated_one_has_its_times(
    script: Start, tmp_path: Path
) -> None:
    body = (
        "with region('epoch'): report('loss', 1)\n"
        "print('ready', flush=True)\n"
        "import time\n"
        "while True: time.sleep(1)\n"
    )
    process = script(body)
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    end(process, -signal.SIGKILL)
    assert names(tmp_path) == ["loss"]
    process = script(body)
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    end(process, -signal.SIGTERM)
    assert names(tmp_path) == ["loss", "loss", "epoch_time"]


def test_a_signal_that_the_script_handles_is_its_own(script: Start, tmp_path: Path) -> None:
    text = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "with region('epoch'): pass\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    end(script(text), 7)
    assert names(tmp_path) == ["epoch_time"]


def test_a_signal_in_the_midst_of_writing_loses_and_doubles_nothing(
    script: Start, tmp_path: Path
) -> None:
    text = (
        "import os, signal\n"
        "for _ in range(5):\n"
        "    with region('batch'): pass\n"
        "write = os.write\n"
        "def interrupted(*arguments):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return write(*arguments)\n"
        "os.write = interrupted\n"
        "flush()\n"
    )
    end(script(text), -signal.SIGTERM)
    assert names(tmp_path) == 5 * ["batch_time"]


def test_a_forked_process_writes_its_own_times_alone(script: Start, tmp_path: Path) -> None:
    text = (
        "import os\n"
        "with region('epoch'): pass\n"
        "if (child := os.fork()) == 0:\n"
        "    with region('io'): pass\n"
        "    flush()\n"
        "    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    end(script(text))
    assert names(tmp_path) == ["io_time", "epoch_time"]


def test_by_hand_it_says_once_that_nothing_is_kept(script: Start, tmp_path: Path) -> None:
    text = "for step in range(3):\n    with region('epoch'): report('loss', 1, step=step)\n"
    words = end(script(text, results=None))
    assert words.count("CAPSULE_RESULTS is not set") == 1
    assert list(tmp_path.iterdir()) == []


def test_calls_beyond_the_most_are_left_out_and_counted(script: Start, tmp_path: Path) -> None:
    text = (
        "import capsule_regions\n"
        "capsule_regions.MOST_CALLS = 3\n"
        "for _ in range(5):\n"
        "    with region('batch'): pass\n"
        "flush()\n"
    )
    words = end(script(text))
    assert names(tmp_path) == 3 * ["batch_time"]
    assert "batch_time: left out 2 calls after the first 3" in words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("region('I/O')", "'I/O_time' is not a metric name"),
        ("report('', 1)", "'' is not a metric name"),
        ("report('loss', 1, step=float('nan'))", "step is nan, expected a finite number"),
        ("@region('io')\nasync def read(): pass\n", "put `with region('io'):` inside it"),
        ("@region('io')\ndef read(): yield\n", "put `with region('io'):` inside it"),
    ],
)
def test_mistakes_are_named(script: Start, text: str, words: str) -> None:
    assert words in end(script(text), 1)


EVENTS = """
import sys, types
class Event:
    now = 0.0
    def __init__(self, *, enable_timing): assert enable_timing
    def record(self): self.at = Event.now
    def synchronize(self): self.over = True
    def elapsed_time(self, end):
        assert end.over
        return end.at - self.at
torch = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(is_available=lambda: {there}, Event=Event)
sys.modules["torch"] = torch
for _ in range({calls}):
    with region("forward", cuda=True):
        Event.now += 250.0
"""


def test_on_a_device_events_measure(script: Start, tmp_path: Path) -> None:
    end(script(EVENTS.format(there=True, calls=2500)))
    assert {line["value"] for line in lines(tmp_path)} == {0.25}
    assert names(tmp_path) == 2500 * ["forward_time"]


WITHOUT_TORCH = "for _ in range(2):\n    with region('forward', cuda=True): pass\n"


@pytest.mark.parametrize("text", [EVENTS.format(there=False, calls=2), WITHOUT_TORCH])
def test_without_a_device_the_clock_measures(script: Start, tmp_path: Path, text: str) -> None:
    end(script(text))
    assert len(lines(tmp_path)) == 2
    assert all(0 < line["value"] < 0.25 for line in lines(tmp_path))


class Stream:
    """A device in the place of `torch.cuda`: an event is reached at its place in time.

    Attributes:
        now: Milliseconds of its clock.
        made: Number of events.
    """

    def __init__(self, *, is_there: bool) -> None:
        self.now, self.made, self.is_there = 0.0, 0, is_there

    def is_available(self) -> bool:
        return self.is_there

    def Event(self, *, enable_timing: bool) -> "Mark":  # noqa: N802 - as torch has it
        assert enable_timing
        self.made += 1
        return Mark(self)


class Mark:
    """An event of a stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream, self._at = stream, -1.0

    def record(self) -> None:
        self._at = self._stream.now

    def synchronize(self) -> None:
        assert self._at >= 0

    def elapsed_time(self, end: "Mark") -> float:
        return end._at - self._at


@pytest.fixture
def regions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library in this process, without what other tests measured."""
    for name, value in {
        "_times": {},
        "_results": capsule_regions._Results(),
        "_devices": capsule_regions._Devices(),
    }.items():
        monkeypatch.setattr(capsule_regions, name, value)
    # signals are this process's own
    monkeypatch.setattr(capsule_regions._end, "_is_watched", True)
    monkeypatch.setenv("CAPSULE_RESULTS", str(tmp_path / "results.jsonl"))
    return capsule_regions


def put_torch(monkeypatch: pytest.MonkeyPatch, *, is_there: bool = True) -> Stream:
    stream = Stream(is_there=is_there)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=stream))
    return stream


def test_work_on_a_device_is_between_two_events(
    regions: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = put_torch(monkeypatch)

    @regions.region("inner", cuda=True)
    def work() -> None:
        stream.now += 250

    for _ in range(1100):
        with regions.region("outer", cuda=True):
            stream.now += 125
            work()
    # of a thousand pairs each is read, so that no more wait
    assert len(regions._times["outer"]._pending) == 100
    regions.flush()
    found = lines(tmp_path)
    for name, seconds in (("outer_time", 0.375), ("inner_time", 0.25)):
        assert [one["value"] for one in found if one["metric"] == name] == [seconds] * 1100
    assert stream.made == 4 * 1100


@pytest.mark.parametrize("fault", ["no device", "no torch", "not asked"])
def test_else_it_is_between_two_readings_of_the_clock(
    regions: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    stream = put_torch(monkeypatch, is_there=fault != "no device")
    if fault == "no torch":
        monkeypatch.delitem(sys.modules, "torch")
    clock = iter((10, 13_000_010))
    monkeypatch.setattr(regions, "perf_counter_ns", clock.__next__)
    with regions.region("step", cuda=fault != "not asked"):
        stream.now += 250
    regions.flush()
    assert [one["value"] for one in lines(tmp_path)] == [0.013]
    assert stream.made == 0
