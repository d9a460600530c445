"""A run on a machine with one GPU, which a library in NVML's place shows."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from capsule import reading
from capsule.record import Record
from tests.support import nvml
from tests.support.command import REPORT, User, write_manifest, write_script

pytestmark = pytest.mark.slow

SECONDS = 5.5
WAIT = f"import time\ntime.sleep({SECONDS})\n"


def start(author: User, library: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command line on the machine with the GPU."""
    environment = {**author.environment(), **nvml.install(library)}
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        environment.pop(name, None)
    return subprocess.run(
        author.argv(*arguments),
        cwd=author.folder,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def run(
    author: User, tmp_path: Path, wait: str = WAIT, **changes: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command under one seed on the machine with the GPU."""
    write_script(author.folder, f"{REPORT}{wait}report('loss', 1.0 + seed % 97)\n")
    benchmark = {
        "id": "tiny",
        "command": ["python3", "tiny.py"],
        "inputs": ["tiny.py"],
        "metrics": {"loss": {"direction": "lower"}},
        **changes,
    }
    write_manifest(
        author.folder,
        seeds=[1],
        benchmarks=[benchmark],
        claims=None,
        resources={"gpus_per_rank": 1},
    )
    library = tmp_path / "library"
    library.mkdir()
    words = ("run", "tiny.json", "--runtime", "host", "--output", "a.zip", "--keep-going")
    return start(author, library, *words)


def read(author: User) -> Record:
    with reading.read(author.folder / "a.zip") as capsule:
        return capsule.record


@pytest.fixture
def author(tmp_path: Path) -> User:
    return User.make(tmp_path)


def test_a_run_that_uses_its_gpu_has_its_series(author: User, tmp_path: Path) -> None:
    ended = run(author, tmp_path, environment={"USES_FAKE_GPU": "1"}, gpu_required=True)
    assert ended.returncode == 0, ended.stderr
    record = read(author)
    (device,) = record.devices
    assert (device.device, device.source, device.use) == ("0000:3b:00.0", "nvml", "used")
    assert device.is_gapless
    assert device.seconds >= SECONDS
    assert len(device.times) == device.samples > SECONDS
    assert {one.name: (one.least, one.largest) for one in device.quantities}["power_watts"] == (
        70.0,
        70.0,
    )
    # its counter stands still
    assert (device.joules, device.energy_gap) == (0.0, None)
    assert "ran-without-gpu" not in [note.code for note in record.notes]
    shown = author.json("show", "a.zip")
    assert shown["metrics"]["tiny/default/command/energy"]["median"] == 0.0
    assert shown["devices"][0]["throttled"].keys() == {"idle"}


def test_a_run_that_does_not_use_its_gpu_is_told(author: User, tmp_path: Path) -> None:
    ended = run(author, tmp_path)
    assert ended.returncode == 0, ended.stderr
    record = read(author)
    assert [one.use for one in record.devices] == ["unused"]
    assert "ran-without-gpu" in [note.code for note in record.notes]
    assert record.attempts[0].outcome == "completed"


def test_it_fails_where_the_gpu_is_required(author: User, tmp_path: Path) -> None:
    run(author, tmp_path, gpu_required=True)
    record = read(author)
    (attempt,) = record.attempts
    assert (attempt.outcome, attempt.reason) == ("failed", "ran-without-gpu")
    assert "did not use its GPU (0000:3b:00.0)" in attempt.message
    assert [one.use for one in record.devices] == ["unused"]


def test_added_seeds_keep_the_devices_of_the_first_ones(author: User, tmp_path: Path) -> None:
    ended = run(author, tmp_path, "")
    assert ended.returncode == 0, ended.stderr
    first = read(author)
    words = ("run", "--add-seeds", "1", "a.zip", "--runtime", "host", "--output", "b.zip")
    ended = start(author, tmp_path / "library", *words)
    assert ended.returncode == 0, ended.stderr
    with reading.read(author.folder / "b.zip") as capsule:
        both = capsule.record
    assert [one.node for one in both.devices] == [one.nodes[0] for one in both.attempts]
    assert list(map(repr, both.devices[:1])) == list(map(repr, first.devices))
    assert {one.use for one in both.devices} == {"not seen"}
