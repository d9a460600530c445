"""What `capsule doctor` says of GPUs, which this machine need not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from capsule import doctor
from capsule.runtimes import gpus
from capsule.runtimes.gpus import Devices


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        (None, "none found"),
        (
            Devices(vendor="nvidia", count=1, driver="580.65.06"),
            "1 GPU from nvidia, driver 580.65.06",
        ),
        (
            Devices(vendor="amd", count=8, driver=None),
            "8 GPUs from amd, driver of unknown version",
        ),
    ],
)
def test_gpus_are_counted_with_their_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: Devices | None, words: str
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setattr(gpus, "find", lambda *_: devices)
    (found,) = (one for one in doctor.examine() if one.area == "GPU")
    assert (found.word, found.what) == ("good", words)
