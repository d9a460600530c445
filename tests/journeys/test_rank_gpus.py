"""A run on a node with GPUs, which no file of this machine shows: what each rank got is sealed."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import pytest

from capsule import api, cli
from capsule.record import Record
from capsule.runtimes import gpus, slots
from capsule.runtimes.gpus import Devices
from capsule.runtimes.slots import Slot
from capsule.telemetry.sampler import FORMAT
from capsule.telemetry.sources import Sample
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


OTHER = """
printf '{"metric": "gpu", "value": 1}\\n' >>"$CAPSULE_RESULTS"
if [ "$CAPSULE_SEED" = 2 ]; then
    printf '{"pci_addresses": ["0000:19:00.0"], "cpus": null}' >"$CAPSULE_OUT/../gpus.json"
    cat "$CAPSULE_INPUTS/trace.jsonl" >"$CAPSULE_OUT/../telemetry.jsonl"
fi
"""
CARD: dict[str, object] = {
    "device": "0000:19:00.0",
    "source": "nvml",
    "wrap_joules": None,
    "limit_watts": None,
    "is_mig": False,
}
TRACE = (
    {"format": FORMAT, "devices": [CARD]},
    ["begin", 1.0],
    [1.5, 0, *[None] * len(Sample._fields)],
    ["end", 2.0],
)


def run(here: Path, gpus: int) -> Record:
    """Run two seeds of a command that writes, under the second one, the files of its rank."""
    (here / "tiny.sh").write_text(OTHER)
    (here / "trace.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in TRACE))
    benchmark = {
        **{"id": "tiny", "command": ["sh", "tiny.sh"], "metrics": {"gpu": {}}},
        "inputs": ["tiny.sh", "trace.jsonl"],
    }
    resources = {"gpus_per_rank": gpus}
    write_manifest(here, seeds=[1, 2], claims=[], benchmarks=[benchmark], resources=resources)
    return api.run("tiny.json").record


def test_the_gpus_of_the_first_start_are_those_of_the_record(here: Path) -> None:
    record = run(here, 1)
    known = record.environment["effective"]["command"]
    assert known["gpus"] == [{"pci_addresses": ["0000:cb:00.0"], "cpus": None}]
    found = [(one.trial, one.device) for one in record.devices if one.source == "nvml"]
    assert found == [("tiny/default/command/2", CARD["device"])]


def test_without_a_request_a_command_cannot_put_gpus_into_the_record(here: Path) -> None:
    record = run(here, 0)
    assert "gpus" not in record.environment["effective"].get("command", {})
    assert [one for one in record.devices if one.source != "rapl"] == []


@pytest.mark.parametrize(("count", "words"), [(2, "2 for each rank"), (0, "none")])
def test_a_dry_run_shows_the_gpus_of_a_rank(
    count: int,
    words: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # this process goes on
    monkeypatch.setattr(gc, "set_threshold", lambda _: None)
    benchmark = {"id": "tiny", "command": ["sh", "tiny.sh"], "metrics": {"gpu": {}}}
    resources = {"gpus_per_rank": count}
    fields = {"benchmarks": [{**benchmark, "inputs": ["tiny.sh"]}], "resources": resources}
    write_manifest(here, seeds=[1, 2], claims=[], **fields)
    assert cli.main(["run", "--dry-run", "--runtime", "host", "tiny.json"]) == 0
    (line,) = (one for one in capsys.readouterr().out.splitlines() if "GPUs" in one)
    assert line.split(maxsplit=1)[1] == words
