"""Worlds of MPI that are none: families, launchers and libraries that do not go together."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from capsule.digest import of_file
from capsule.errors import CannotRunError
from capsule.launch import preflight
from capsule.launch.base import Launcher
from capsule.launch.local import Local
from capsule.launch.mpirun import Mpirun
from capsule.launch.preflight import Request
from capsule.launch.srun import Srun
from capsule.manifest.model import Resources
from capsule.runtimes.base import Library, Prepared
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
    assert f"mpirun belongs to {family}, and the image has {other}" in str(caught.value)
    assert "put an mpirun of the image's family first on the PATH" in str(caught.value)


def test_ranks_of_another_family_would_each_be_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody had asked before."""
    monkeypatch.setenv("PATH", programs("MPICH"))
    said = refused(world(tmp_path, "Open MPI"), Mpirun(), PATIENCE_SECONDS)
    assert "is alone in its world according to mpi, but 2 ranks were started" in said
    assert "two families of MPI: the launcher is MPICH" in said


def test_a_clean_environment_without_pmi_is_told_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", programs("MPICH"))
    start = "for name in $(env | sed -n 's/^\\(PMI[^=]*\\)=.*/\\1/p'); do unset $name; done"
    said = refused(world(tmp_path, "MPICH", start=start), Mpirun(), PATIENCE_SECONDS)
    assert "is alone in its world according to mpi, but 2 ranks were started" in said
    assert "received no variables of a world (PMI_*, PMIX_*, OMPI_*)" in said
    assert "clears the environment" in said


def test_a_library_that_cannot_be_loaded_is_told_before_the_ranks_start(tmp_path: Path) -> None:
    alone = world(tmp_path, "MPICH", 1, how="probe-mpi")
    (tmp_path / "libmpi.so").write_text("of another machine")
    broken = given(alone, {"MPI4PY_LIBMPI": str(tmp_path / "libmpi.so")})
    with pytest.raises(CannotRunError, match="cannot load the image's mpi4py") as caught:
        probe(Local(), broken)
    assert caught.value.exit_code == 6
    assert "name the MPI library in MPI4PY_LIBMPI" in str(caught.value)


def of_machine(family: str, *, path: str = "") -> Prepared:
    """As where the site file names a family's library."""
    library = Path(path or environment(family)["MPI4PY_LIBMPI"])
    return replace(
        PREPARED,
        libraries=(
            Library(
                path=str(library),
                name=library.name,
                place="below /opt",
                digest=of_file(library.resolve()),
            ),
        ),
    )


def test_a_library_of_this_machine_is_seen_to_be_loaded(tmp_path: Path) -> None:
    alone = world(tmp_path, "MPICH", 1, how="probe-mpi")
    assert preflight.probe(Local(), Host(), of_machine("MPICH"), alone) is None
    (tmp_path / "other").mkdir()
    other = world(tmp_path / "other", "Open MPI", 1, how="probe-mpi")
    with pytest.raises(CannotRunError, match="two families of MPI") as caught:
        preflight.probe(Srun(Resources()), Host(), of_machine("Open MPI"), other)
    assert "libmpi.so.40 of this machine (`mpi` of the site file) is Open MPI" in str(caught.value)


def test_one_of_another_abi_than_the_images_mpi4py_is_refused(tmp_path: Path) -> None:
    """Which has a build for MPICH alone, as where an image compiled its own."""
    variables = environment("MPICH")
    package = tmp_path / "packages/mpi4py"
    shutil.copytree(
        Path(variables["PYTHONPATH"], "mpi4py"),
        package,
        ignore=shutil.ignore_patterns("MPI.openmpi*", "__pycache__"),
    )
    alone = world(tmp_path, "Open MPI", 1, how="probe-mpi")
    alone = given(alone, {"PYTHONPATH": str(package.parent)})
    with pytest.raises(CannotRunError, match="built for mpich") as caught:
        preflight.probe(Local(), Host(), of_machine("Open MPI"), alone)
    assert caught.value.exit_code == 6
    assert "this machine's MPI is libmpi.so.40" in str(caught.value)
    assert "name a library of the image's family" in str(caught.value)


def test_an_image_that_takes_its_own_library_all_the_same_is_refused(tmp_path: Path) -> None:
    own = environment("MPICH")["MPI4PY_LIBMPI"]
    alone = world(tmp_path, "MPICH", 1, how="probe-mpi", start=f"export MPI4PY_LIBMPI={own}")
    other = tmp_path / Path(own).name
    shutil.copyfile(own, other)
    with pytest.raises(CannotRunError, match=r"mpi4py loads MPICH Version: 5\.0\.2"):
        preflight.probe(Local(), Host(), of_machine("MPICH", path=str(other)), alone)


def test_nodes_with_two_libraries_at_one_path_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where one node was updated: each rank has another file in a place of one name."""
    monkeypatch.setenv("PATH", programs("MPICH"))
    own = environment("MPICH")["MPI4PY_LIBMPI"]
    for rank in (0, 1):
        (tmp_path / f"node{rank}").mkdir()
        library = tmp_path / f"node{rank}/libmpi.so.12"
        library.write_bytes(Path(own).read_bytes() + b"%d" % rank)
    # what it looks for beside itself
    start = f"cd {tmp_path}/node$CAPSULE_RANK; export LD_LIBRARY_PATH={Path(own).parent}/mpich"
    start += " MPI4PY_LIBMPI=./libmpi.so.12"
    said = refused(world(tmp_path, "MPICH", start=start), Mpirun(), PATIENCE_SECONDS)
    assert "ranks 0 and 1 load two libraries of MPI from one path (./libmpi.so.12)" in said
