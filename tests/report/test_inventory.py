"""What a person is shown of a machine: one screen, whatever could not be read."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from capsule import inventory, report
from capsule.jsons import Json
from capsule.runtimes.base import Availability
from tests.support.machines import unfold

ENGINES = {
    "apptainer": Availability(usable=True, version="apptainer version 1.4.5"),
    "docker": Availability(usable=False, version=None, reason="no daemon answers; start it"),
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
PLACES = (
    ("class", ("machine", "cpu", "memory", "network", "gpus")),
    ("state", ("cpu", "system", "limits", "network", "gpu_driver", "momentary")),
)


def draw(node: Mapping[str, Json], width: int = 80) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width).print(*report.draw_inventory(node, ENGINES), sep="\n")
    return stream.getvalue()


def node_of(machine: str, folder: Path) -> dict[str, Any]:
    """The inventory of a recorded machine."""
    return inventory.node(unfold(machine, folder), salt="")


@pytest.mark.parametrize("machine", ["epyc", "grace", "microvm"])
def test_a_machine_fits_on_a_screen(machine: str, tmp_path: Path) -> None:
    lines = draw(node_of(machine, tmp_path)).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_every_part_of_a_machine_is_named(tmp_path: Path) -> None:
    shown = draw(node_of("epyc", tmp_path), 200)
    for part in (
        "Supermicro AS -1123US-TR4",
        "rocky 9.4, Linux 5.14.0-427.13.1.el9_4.x86_64, x86_64",
        "AMD EPYC 7251 8-Core Processor, 2 sockets, 16 cores, 32 threads, up to 2.1 GHz",
        "vectors avx2, caches L1 16 x 32 KiB + L2 16 x 512 KiB + L3 16 x 4 MiB",
        "252 GiB",
        "8 NUMA nodes",
        "may run on 8 of 32 threads, CPU time of at most 8 processors, at most 64 GiB of memory",
        "1 x AMD Instinct MI210, 64 GiB",
        "amdgpu driver 6.8.5",
        "mlx5_0 (InfiniBand), 1 x 200 Gb/sec (4X HDR)",
        "ens1f0 (mlx5_core), 25 Gbit/s, up",
        "apptainer: usable, apptainer version 1.4.5",
        "docker: not usable, no daemon answers; start it",
        "8 facts could not be read: --json lists each fact with the reason",
    ):
        assert part in shown, part


def test_why_there_is_no_accelerator_is_said(tmp_path: Path) -> None:
    shown = draw(node_of("microvm", tmp_path), 200)
    assert "GPUs       none (absent: /sys/bus/pci/devices has no NVIDIA, AMD or Intel" in shown


def test_equal_accelerators_are_counted_and_many_interfaces_cut(tmp_path: Path) -> None:
    node = node_of("microvm", tmp_path)
    gpu = {"model": "NVIDIA H100", "memory_bytes": 80 << 30, "compute_capability": "9.0"}
    interfaces = {f"eth{n}": {"driver": "igb"} for n in range(9)}
    kind = {**node["class"], "gpus": [gpu] * 8, "network": {"interfaces": interfaces}}
    shown = draw({**node, "class": kind}, 120)
    assert "8 x NVIDIA H100, 80 GiB, compute capability 9.0" in shown
    assert "and 5 more" in shown


@given(st.data())
def test_whatever_a_node_holds_is_drawn(data: st.DataObject) -> None:
    node = {section: {part: data.draw(ANYTHING) for part in parts} for section, parts in PLACES} | {
        "missing": data.draw(ANYTHING)
    }
    assert "processor" in draw(node)
    assert inventory.describe(node)


def test_a_machine_whose_files_say_nothing_is_drawn(tmp_path: Path) -> None:
    shown = draw(inventory.node(tmp_path, salt=""))
    assert "unknown processor" in shown
    assert "facts could not be read" in shown


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    node = node_of("microvm", tmp_path)
    cpu = {**node["class"]["cpu"], "model": "\x1b[2Jevil"}
    assert "\x1b" not in draw({**node, "class": {**node["class"], "cpu": cpu}})


@pytest.mark.parametrize(
    ("gpus", "driver", "words"),
    [
        (
            [{"model": "A", "memory_bytes": 8 << 30}, {"model": "A", "memory_bytes": 8 << 30}],
            {"nvidia_version": "580.65.06", "cuda_version": "13.0"},
            ["2 x A, 8 GiB", "NVIDIA driver 580.65.06, CUDA 13.0"],
        ),
        ([{}], {"amdgpu_version": "6.8.5"}, ["1 x unknown model", "amdgpu driver 6.8.5"]),
        ([{"compute_capability": "9.0"}], {}, ["1 x unknown model, compute capability 9.0"]),
        ([], {}, ["none (unknown reason)"]),
    ],
)
def test_accelerators_are_named_with_what_is_known(
    tmp_path: Path, gpus: list[Json], driver: Json, words: list[str]
) -> None:
    node = node_of("microvm", tmp_path)
    changed = {
        "class": {**node["class"], "gpus": gpus},
        "state": {**node["state"], "gpu_driver": driver},
        "missing": {},
    }
    text = draw({**node, **changed}, 120)
    _, _, rest = text.partition("GPUs       ")
    shown = [line.strip() for line in rest.splitlines()[: len(words)]]
    assert shown == words
