"""Faults in the branches that only a device takes are caught by the tests nearest to them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import device_branches, mutation
from tests.support.long_run import COUNT, COVERS, ROOT

HELD = 0.95

SOURCE = '''
def load(device, other):
    cuda = torch.device(device).type == "cuda"
    clock = Clock() if cuda else None
    if other:
        return 1
    if device != "cpu" and other:
        torch.cuda.synchronize()
    else:
        host()
    if other:
        torch.cuda.empty_cache()
    return [one for one in other if one.is_cuda], device == "cuda" or other


def ask(nvml, other):
    assert nvml or other
    try:
        with suppress(nvml.NVMLError):
            return other
    except nvml.NVMLError:
        return None


def wait():
    """torch.cuda.synchronize"""
    torch.cuda.synchronize()


def read():
    """torch.cuda.synchronize"""
    return 1


class CudaClock:
    def flush(self):
        while self.buffer:
            pass


def take(vendor, other):
    match vendor:
        case "nvidia" if nvidia(other):
            return 1
        case "amd":
            return 2
'''


@pytest.mark.long
def test_nearly_all_branches_of_devices_are_held(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    written = tmp_path / "branches.json"
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.device_branches", "--json", str(written)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    held = [one["is_held"] for one in json.loads(written.read_text())]
    assert sum(held) >= HELD * len(held), ended.stdout
    record_property(COVERS, "branches that only a device takes, of which tests hold 95 in 100")
    record_property(COUNT, len(held))


def test_branches_of_a_device_are_found_by_what_they_say() -> None:
    found = device_branches.scan(ast.parse(SOURCE), "made_up")
    assert [(one.function, one.condition) for one in found] == [
        ("load", "cuda"),
        ("load", "device != 'cpu' and other"),
        ("load", "other"),
        ("load", "one.is_cuda"),
        ("load", "device == 'cuda' or other"),
        ("ask", "suppress(nvml.NVMLError)"),
        ("ask", "nvml.NVMLError"),
        ("wait", "wait"),
        ("CudaClock.flush", "self.buffer"),
        ("take", "nvidia(other)"),
    ]
    faults = [words for one in found for words, _ in one.changes]
    assert faults.count("inverted") == len(found) - 1
    assert faults.count("other side emptied") == 1


def test_every_fault_of_a_device_is_other_code_and_has_tests() -> None:
    modules = device_branches.list_modules()
    assert {"levels/frameworks/torch/clock", "runtimes/visible", "inventory/gpu"} <= set(modules)
    for module in modules:
        files = device_branches.find_nearest(module)
        assert files, module
        assert all((ROOT / "tests" / name).exists() for name in files), module
        right = mutation.compile_tree(mutation.parse(module), module)
        faults = device_branches.list_faults(module)
        assert all(device_branches.plant(fault) != right for fault in faults[::10]), module
