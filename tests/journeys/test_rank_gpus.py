"""A run on a node with GPUs, which no file of this machine shows: what each rank got is sealed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from capsule import api
from capsule.runtimes import gpus, slots
from capsule.runtimes.gpus import Devices
from capsule.runtimes.slots import Slot
from tests.support.command import write_manifest
from tests.support.gpu_trees import FOUR_H100

pytestmark = pytest.mark.slow

SCRIPT = (
    'printf \'{"metric": "gpu", "value": %s}\\n\' "$CUDA_VISIBLE_DEVICES" >>"$CAPSULE_RESULTS"\n'
)
SLOTS = tuple(Slot(address=card.address, uuid=card.uuid) for card in FOUR_H100.cards)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, on a node with four GPUs of which two are visible."""
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    # a Python that answers at once
    python = tmp_path / "bin/python3"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    four = Devices(vendor="nvidia", count=4, driver="580.65.06")
    monkeypatch.setattr(gpus, "find", lambda *_: four)
    monkeypatch.setattr(slots, "find", lambda *_: SLOTS)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "tiny.sh").write_text(SCRIPT)
    return folder


def test_the_record_has_the_gpus_of_each_rank(here: Path) -> None:
    benchmark = {
        **{"id": "tiny", "command": ["sh", "tiny.sh"], "inputs": ["tiny.sh"]},
        **{"metrics": {"gpu": {"per": "rank"}}, "ranks_independent": True},
    }
    resources = {"ranks_per_node": 2, "gpus_per_rank": 1}
    write_manifest(here, seeds=[1, 2], claims=[], benchmarks=[benchmark], resources=resources)
    record = api.run("tiny.json").record
    values = {(one.seed, one.rank): tuple(one.values) for one in record.samples}
    assert values == {(1, 0): (3.0,), (1, 1): (1.0,), (2, 0): (3.0,), (2, 1): (1.0,)}
    assert record.environment["effective"]["command"]["gpus"] == [
        {"pci_addresses": ["0000:cb:00.0"], "cpus": None},
        {"pci_addresses": ["0000:4c:00.0"], "cpus": None},
    ]
