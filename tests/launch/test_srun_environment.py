"""Variables that `srun` gets from capsule, seen by a program in its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from capsule.errors import CannotRunError
from capsule.launch.srun import Srun
from capsule.manifest.model import Resources
from capsule.runtimes import visible

OF_THIS_NODE = dict.fromkeys(visible.LISTS, "3") | {"ROCR_VISIBLE_DEVICES": ""}
OF_THE_USER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "ZE_FLAT_DEVICE_HIERARCHY": "FLAT"}


def test_lists_of_this_nodes_gpus_do_not_travel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, shown = tmp_path / "bin/srun", tmp_path / "shown"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nenv >{shown}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    for name, value in (OF_THIS_NODE | OF_THE_USER).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(CannotRunError, match="rank 0 of 2 did not start"):
        Srun(Resources(nodes=2)).survey(salt="", keep_hosts=False, folder=tmp_path / "survey")
    given = dict(line.partition("=")[::2] for line in shown.read_text().splitlines())
    assert not given.keys() & OF_THIS_NODE.keys()
    assert {name: given[name] for name in OF_THE_USER} == OF_THE_USER
