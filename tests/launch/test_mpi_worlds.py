"""Worlds of MPI that are none: families, launchers and libraries that do not go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from capsule.errors import CannotRunError
from capsule.launch import preflight
from capsule.launch.base import Launcher
from capsule.launch.local import Local
from capsule.launch.mpirun import Mpirun
from capsule.launch.preflight import Request
from capsule.runtimes.host import Host
from tests.support.mpi import FAMILIES, environment, programs
from tests.support.preflights import PREPARED, given, refused, request

pytestmark = pytest.mark.engines

PATIENCE_SECONDS = 60.0
OTHERS = [("MPICH", "Open MPI"), ("Open MPI", "MPICH")]


def world(
    folder: Path, family: str, ranks: int = 2, *, how: str = "mpi", start: str = ""
) -> Request:
    """Ranks whose Python has the library of a family."""
    return given(request(folder, ranks, how=how, start=start), environment(family))


def probe(launcher: Launcher, of: Request) -> str | None:
    return preflight.probe(launcher, Host(), PREPARED, of)


@pytest.mark.parametrize("family", FAMILIES)
def test_ranks_of_one_family_are_a_world_of_mpi_too(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", programs(family))
    launcher = Mpirun()
    assert launcher.family == family
    met = preflight.check(launcher, Host(), PREPARED, world(tmp_path, family, 3))
    assert met.means == ("sockets", "mpi")


@pytest.mark.parametrize(("family", "other"), OTHERS)
def test_two_families_are_refused_before_the_ranks_start(
    family: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", programs(family))
    alone = world(tmp_path, other, 1, how="probe-mpi")
    assert probe(Local(), alone) is None
    with pytest.raises(CannotRunError, match="two families of MPI") as caught:
        probe(Mpirun(), alone)
    assert caught.value.exit_code == 6
    assert f"mpirun here is {family}'s, and the image has {other}" in str(caught.value)
    assert "put a mpirun of the image's family first on the PATH" in str(caught.value)


def test_ranks_of_another_family_would_each_be_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody had asked before."""
    monkeypatch.setenv("PATH", programs("MPICH"))
    said = refused(world(tmp_path, "Open MPI"), Mpirun(), PATIENCE_SECONDS)
    assert "is alone in its world by mpi, and 2 ranks were started" in said
    assert "two families of MPI: the launcher speaks as MPICH does" in said


def test_a_clean_environment_without_pmi_is_told_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", programs("MPICH"))
    start = "for name in $(env | sed -n 's/^\\(PMI[^=]*\\)=.*/\\1/p'); do unset $name; done"
    said = refused(world(tmp_path, "MPICH", start=start), Mpirun(), PATIENCE_SECONDS)
    assert "is alone in its world by mpi, and 2 ranks were started" in said
    assert "(PMI_*, PMIX_*, OMPI_*), which did not reach it" in said
    assert "begins with a clean environment" in said


def test_a_library_that_cannot_be_loaded_is_told_before_the_ranks_start(tmp_path: Path) -> None:
    alone = world(tmp_path, "MPICH", 1, how="probe-mpi")
    (tmp_path / "libmpi.so").write_text("of another machine")
    broken = given(alone, {"MPI4PY_LIBMPI": str(tmp_path / "libmpi.so")})
    with pytest.raises(CannotRunError, match="mpi4py cannot be loaded") as caught:
        probe(Local(), broken)
    assert caught.value.exit_code == 6
    assert "name it in MPI4PY_LIBMPI" in str(caught.value)
