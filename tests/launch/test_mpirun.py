"""Ranks that `mpirun` starts on this node: MPICH's and Open MPI's own, from their wheels."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import launch, process
from capsule.errors import CannotRunError
from capsule.launch.base import RENDEZVOUS
from capsule.launch.mpirun import Mpirun
from capsule.launch.started import StartedRanks
from capsule.manifest.model import Resources
from capsule.runtimes.base import Ended, Prepared
from capsule.runtimes.host import Host
from capsule.site import Site
from tests.support.launches import KILLED, TAKEN, THEN, WAITS, WELL, label, ranks
from tests.support.mpi import FAMILIES, programs
from tests.support.patience import PATIENCE_SECONDS, read_lines

pytestmark = pytest.mark.engines


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whose `mpirun` is on the PATH."""
    name = str(request.param)
    monkeypatch.setenv("PATH", programs(name))
    # as inside a job, which no mpirun of one node is to ask for
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("OMPI_MCA_btl", "none-such")
    return name


def start(folder: Path, *scripts: str) -> StartedRanks:
    return Mpirun().start(Host(), Prepared(handle=""), ranks(folder, *scripts))


def ends(folder: Path, *scripts: str) -> tuple[Ended, ...] | None:
    launched = start(folder, *scripts)
    try:
        return launched.wait(PATIENCE_SECONDS)
    finally:
        launched.stop()
        assert not process.find_marked(label(folder))


def test_ranks_get_what_their_launcher_says_and_nothing_else(family: str, tmp_path: Path) -> None:
    assert Mpirun().observations()["launcher"].startswith(f"mpirun of {family} 5.0")
    assert ends(tmp_path, "env", "env", "env") == (WELL,) * 3
    shown = (tmp_path / "2/out").read_text()
    assert f"{RENDEZVOUS}=file:///nowhere\n" in shown
    assert ("PMI_RANK=2\n" if family == "MPICH" else "OMPI_COMM_WORLD_RANK=2\n") in shown
    assert not re.findall(r"(?m)^(?:SLURM\w*|HOME|OMPI_MCA_btl)=", shown)


@pytest.mark.parametrize(
    ("line", "end"),
    [("exit 3", Ended(exit_code=3, signal=None)), ("kill -9 $$", KILLED)],
    ids=["fails", "is killed"],
)
def test_one_that_does_not_end_well_ends_the_others(
    family: str, tmp_path: Path, line: str, end: Ended
) -> None:
    assert family
    assert ends(tmp_path, WAITS, f"{THEN}{line}") == (TAKEN, end)


def test_a_rank_whose_program_is_not_there_ends_the_other(family: str, tmp_path: Path) -> None:
    assert family
    first, lost = ranks(tmp_path, WAITS, "")
    lost = replace(lost, command=("no-such-program",))
    ended = Mpirun().start(Host(), Prepared(handle=""), [first, lost]).wait(PATIENCE_SECONDS)
    assert ended is not None
    assert ended[0] == TAKEN
    assert "no-such-program" in str(ended[1].engine_fault)


def test_they_run_until_they_are_stopped_and_then_none_is_left(family: str, tmp_path: Path) -> None:
    assert family
    launched = start(tmp_path, WAITS, f'setsid sh -c "{WAITS}"')
    read_lines(tmp_path / "there", 2)
    assert launched.wait(0) is None
    launched.stop()
    assert not process.find_marked(label(tmp_path))


def test_no_mpirun_or_somebody_elses_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(file=tmp_path / "site.json", launcher="mpirun")
    assert launch.choose(Resources(ranks_per_node=4), site).name == "mpirun"
    with pytest.raises(CannotRunError, match="mpirun starts ranks on one node only"):
        launch.choose(Resources(nodes=2), site)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotRunError, match="no mpirun on the PATH"):
        Mpirun().observations()
    program = tmp_path / "mpirun"
    program.write_text("#!/bin/sh\necho mpirun of somebody\n")
    program.chmod(0o755)
    with pytest.raises(
        CannotRunError, match="expected mpirun of MPICH or Open MPI, found mpirun of somebody"
    ):
        Mpirun().observations()
