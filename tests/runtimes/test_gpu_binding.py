"""Binding of ranks to the CPUs near their GPUs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from capsule.errors import CannotRunError
from capsule.inventory.tree import compress
from capsule.runtimes import gpus, slots, visible
from capsule.runtimes.base import GPUS, GpuShare, Prepared
from capsule.runtimes.host import Host
from capsule.runtimes.slots import Slot
from tests.support.gpu_trees import (
    FOUR_H100,
    MAX_1550,
    MI250X,
    MIG,
    OTHER_MIG,
    VARIABLES,
    FakeNvml,
    build,
    invocation,
    nvidia_uuid,
)

ONE = GpuShare(count=1)
FOREIGN = nvidia_uuid(0xFFFF)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No scheduler said anything."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_a_mig_instance_is_near_the_cpus_of_its_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = build(FOUR_H100, tmp_path)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FOUR_H100, instances={2: [MIG]}))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: FOUR_H100.all_cpus)
    known = slots.find("nvidia") or ()
    located = slots.locate("nvidia", [MIG, OTHER_MIG], known, {})
    assert [one and one.address for one in located] == ["0000:9b:00.0", None]
    assert compress(list(slots.choose_cpus(0, [located[:1]], 8, root))) == FOUR_H100.cpus[1]
    assert slots.choose_cpus(0, [located[1:]], 8, root) == ()


@pytest.mark.parametrize(
    ("allowed", "gpu_index", "expected"),
    [
        # of a launcher that binds each rank
        (range(1, 8), 4, ""),
        (range(48, 56), 4, ""),
        # of a job that has a part of the node
        (range(64), 4, "0-15"),
        (range(8, 24), 4, "8-15"),
        # too few CPUs for its threads are near
        (range(12, 28), 4, ""),
    ],
)
def test_a_rank_is_bound_within_what_it_may_use(
    allowed: range,
    gpu_index: int,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = build(MI250X, tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(allowed))
    slot = (slots.find("amd", root) or ())[gpu_index]
    assert compress(list(slots.choose_cpus(0, [[slot]], 7, root))) == expected


def one_cpu(root: Path) -> int:
    """Put the GPUs of a tree near one CPU that this process may use; returns the CPU."""
    cpu = max(os.sched_getaffinity(0))
    for path in root.glob("sys/devices/system/node/node*/cpulist"):
        path.write_text(f"{cpu}\n")
    return cpu


def test_a_rank_runs_on_the_cpus_of_its_gpu_and_says_so(tmp_path: Path) -> None:
    root = build(FOUR_H100, tmp_path / "root")
    cpu = one_cpu(root)
    before = os.sched_getaffinity(0)
    shows = "import os; print(sorted(os.sched_getaffinity(0)))"
    asked = invocation(tmp_path / "rank", ONE, sys.executable, "-c", shows)
    ended = Host(root).start(Prepared(handle=""), asked).wait(60)
    assert ended is not None
    assert ended.exit_code == 0
    assert json.loads((tmp_path / "rank/stdout").read_text()) == [cpu]
    assert os.sched_getaffinity(0) == before
    bound = str(cpu) if before != {cpu} else None
    facts = json.loads((tmp_path / "rank" / GPUS).read_text())
    assert facts == {"pci_addresses": ["0000:19:00.0"], "cpus": bound}


def test_a_rank_without_gpus_is_not_bound(tmp_path: Path) -> None:
    root = build(FOUR_H100, tmp_path / "root")
    one_cpu(root)
    asked = invocation(tmp_path / "rank", GpuShare())
    assert visible.assign(asked, root) == asked
    assert not (tmp_path / "rank" / GPUS).exists()


def test_an_engine_that_cannot_bind_leaves_a_rank_as_it_is(tmp_path: Path) -> None:
    root = build(FOUR_H100, tmp_path / "root")
    one_cpu(root)
    chosen = visible.assign(invocation(tmp_path / "rank", ONE), root, can_bind=False)
    assert (chosen.devices, chosen.cpus) == (("0",), ())
    facts = json.loads((tmp_path / "rank" / GPUS).read_text())
    assert facts == {"pci_addresses": ["0000:19:00.0"], "cpus": None}


@pytest.mark.parametrize("known", [None, (Slot(address=""), Slot(address=""))])
def test_of_a_gpu_of_unknown_place_nothing_is_said(
    known: tuple[Slot, ...] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = build(FOUR_H100, tmp_path / "root")
    monkeypatch.setattr(slots, "find", lambda *_: known)
    chosen = visible.assign(invocation(tmp_path / "rank", ONE), root)
    assert (chosen.devices, chosen.cpus) == (("0",), ())
    facts = json.loads((tmp_path / "rank" / GPUS).read_text())
    assert facts == {"pci_addresses": [None], "cpus": None}


def test_a_choice_that_cannot_be_written_down_is_refused(tmp_path: Path) -> None:
    root = build(FOUR_H100, tmp_path / "root")
    asked = invocation(tmp_path / "rank", ONE)
    (tmp_path / "rank" / GPUS).mkdir()
    with pytest.raises(CannotRunError, match=r"cannot write .*gpus\.json: Is a directory"):
        visible.assign(asked, root)


def test_of_one_card_every_name_is_that_card_of_nvidias(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its instances included, whose card only a library can tell, and whatever the order is."""
    monkeypatch.setattr(gpus, "ask_nvml", lambda _: None)
    one = (Slot(address="0000:06:00.0", uuid=nvidia_uuid(0x10)),)
    fastest = {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}
    assert slots.locate("nvidia", [MIG, OTHER_MIG, "0"], one, fastest) == one * 3
    assert slots.locate("nvidia", [MIG, "0"], one * 2, fastest) == (None, None)
    assert slots.locate("amd", ["1", FOREIGN], one, {}) == (None, None)


@pytest.mark.parametrize("gone", ["numa_node", "cpulist"])
def test_a_gpu_without_known_cpus_leaves_its_rank_unbound(
    gone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = build(FOUR_H100, tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: FOUR_H100.all_cpus)
    placed = [[slot] for slot in slots.find("nvidia", root) or ()]
    assert slots.choose_cpus(0, placed, 1, root)
    for path in root.glob(f"sys/**/{gone}"):
        path.unlink()
    assert slots.choose_cpus(0, placed, 1, root) == ()


def test_a_mask_without_a_hierarchy_names_no_known_card() -> None:
    cards = tuple(Slot(address=card.address, tiles=2) for card in MAX_1550.cards)
    masked = {"ZE_AFFINITY_MASK": "1", slots.PCI_ORDER: "1"}
    assert slots.locate("intel", ["1"], cards, masked) == (None,)
    known = {**masked, slots.HIERARCHY: "COMPOSITE"}
    assert slots.locate("intel", ["1", "9"], cards, known) == (cards[1], None)
    # capsule sets both where there is no mask
    assert slots.locate("intel", ["1"], cards, {}) == (cards[1],)
    assert slots.locate("intel", ["1"], cards, {slots.PCI_ORDER: "0"}) == (None,)
