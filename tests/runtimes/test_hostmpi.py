"""This machine's own libraries in the place of an image's: what is found of them, and told."""

from __future__ import annotations

import ctypes.util
import os
from pathlib import Path

import pytest

from capsule import notes
from capsule.digest import of_file
from capsule.errors import CannotRunError, UsageError
from capsule.runtimes import hostmpi
from capsule.runtimes.base import Library, Mount, Prepared
from capsule.site import Site


@pytest.fixture
def library() -> Path:
    """One that every machine has, in the place of MPI."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    (name,) = {line.split()[-1] for line in lines if "/libc.so.6" in line}
    assert ctypes.util.find_library("c") == "libc.so.6"
    return Path(name)


def find(folder: Path, *names: str) -> tuple[Library, ...]:
    mpi = tuple(f"/opt/vendor/{name}" for name in names)
    site = Site(file=folder / "site.json", binds={"/opt/vendor": folder}, mpi=mpi)
    return hostmpi.find(site, (Mount(source=folder, target="/opt/vendor"),))


def test_libraries_are_known_by_name_place_and_digest(tmp_path: Path, library: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libmpi.so.12.1").write_bytes(library.read_bytes())
    (tmp_path / "lib/libmpi.so.12").symlink_to("libmpi.so.12.1")
    (found,) = find(tmp_path, "lib/libmpi.so.12")
    assert found == Library(
        path="/opt/vendor/lib/libmpi.so.12",
        name="libc.so.6",
        place=f"below /{tmp_path.resolve().parts[1]}",
        digest=of_file(library),
    )
    prepared = hostmpi.use(Prepared(handle="", observations={"version": "1"}), (found,))
    assert prepared.libraries == (found,)
    (note,) = notes.site_files(prepared.observations)
    assert note.code == "site-mpi"
    assert f"libc.so.6 ({found.place}, {found.digest})" in note.sentence
    site = Site(file=tmp_path, binds={"/opt/c": library.parent}, mpi=(f"/opt/c/{library.name}",))
    (other,) = hostmpi.find(site, (Mount(source=library.parent, target="/opt/c"),))
    assert other.place == "of the system"


def test_loaders_find_them_before_the_images_own(tmp_path: Path, library: Path) -> None:
    for name in ("lib/libmpi.so.12", "lib/libpmi.so.0", "fabric/libfabric.so.1"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(library.read_bytes())
    all_of_it = find(tmp_path, "lib/libmpi.so.12", "lib/libpmi.so.0", "fabric/libfabric.so.1")
    assert hostmpi.variables(all_of_it, {"LD_LIBRARY_PATH": "/opt/own", "OTHER": "x"}) == {
        "MPI4PY_LIBMPI": "/opt/vendor/lib/libmpi.so.12",
        "LD_LIBRARY_PATH": "/opt/vendor/lib:/opt/vendor/fabric:/opt/own",
    }
    assert hostmpi.variables(all_of_it[:1], {})["LD_LIBRARY_PATH"] == "/opt/vendor/lib"
    assert hostmpi.variables((), {"LD_LIBRARY_PATH": "/opt/own"}) == {}


def test_what_is_no_library_is_refused(tmp_path: Path, library: Path) -> None:
    shown = tmp_path / "shown"
    shown.mkdir()
    with pytest.raises(CannotRunError, match="does not exist on this machine"):
        find(shown, "libmpi.so.12")
    (shown / "libmpi.so").write_text("INPUT(libmpi.so.12)")
    with pytest.raises(UsageError, match=r"libmpi\.so is not a shared library") as caught:
        find(shown, "libmpi.so")
    assert "name the file that programs load" in str(caught.value)
    # one that is cut off, as by a copy that was
    for length in (5, 40, 200, 4096):
        (shown / "cut").write_bytes(library.read_bytes()[:length])
        with pytest.raises(UsageError, match="cut is not a shared library"):
            find(shown, "cut")
    (tmp_path / "outside").write_bytes(library.read_bytes())
    (shown / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match="which no bind covers"):
        find(shown, "link")
    os.mkfifo(shown / "pipe")
    with pytest.raises(CannotRunError, match="does not exist on this machine"):
        find(shown, "pipe")
