"""Directives of a job script that `sbatch` gets, seen by a program in its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from capsule.digest import of_bytes
from capsule.launch import slurm
from capsule.launch.script import Script
from capsule.manifest.model import Resources


def directives(folder: Path, resources: Resources) -> list[str]:
    """Submit a job; returns the options that its script has for Slurm."""
    script = Script(
        name="tiny",
        folder=folder,
        work=folder,
        manifest=folder / "tiny.json",
        digest=of_bytes(b"{}"),
        begin="true",
        resume="true",
        resources=resources,
        walltime=None,
        options={},
    )
    lock = os.open(folder, os.O_RDONLY)
    try:
        assert slurm.submit(folder / "job.sh", script, lock=lock) == "42"
    finally:
        os.close(lock)
    lines = (folder / "job.sh").read_text().splitlines()
    return [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where jobs are submitted, to a Slurm that takes every one."""
    program = tmp_path / "bin/sbatch"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 42\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


@pytest.mark.parametrize(
    ("ranks", "gpus", "asked"),
    [(1, 0, []), (4, 0, []), (1, 1, ["--gpus-per-node=1"]), (3, 2, ["--gpus-per-node=6"])],
)
def test_a_job_asks_for_the_gpus_of_all_ranks_of_a_node(
    folder: Path, ranks: int, gpus: int, asked: list[str]
) -> None:
    found = directives(folder, Resources(nodes=2, ranks_per_node=ranks, gpus_per_rank=gpus))
    assert [one for one in found if one.startswith("--gpu")] == asked
    assert {"--nodes=2", f"--ntasks-per-node={ranks}"} <= set(found)
