"""What programs and libraries say that they need, read as anybody's files."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule.launch import families
from capsule.runtimes import elf
from tests.support.compiler import needs_compiler

SOURCE = "int answer(void);\nint main(void) { return answer(); }\n"
LIBRARY = "int answer(void) { return 0; }\n"
NAME = "libmpi.so.12"


def build(folder: Path, *options: str) -> Path:
    (folder / "main.c").write_text(SOURCE)
    (folder / "library.c").write_text(LIBRARY)
    named = f"-Wl,-soname,{NAME}"
    for words in (
        ("-shared", "-fPIC", named, "library.c", "-o", NAME),
        ("main.c", "-o", "main", "-L.", f"-l:{NAME}", *options),
    ):
        subprocess.run(["cc", *words], cwd=folder, check=True, capture_output=True)
    return folder / "main"


@needs_compiler
@pytest.mark.parametrize("tags", ["--enable-new-dtags", "--disable-new-dtags"])
def test_a_program_names_its_libraries_and_where_they_lie(tmp_path: Path, tags: str) -> None:
    program = build(tmp_path, f"-Wl,{tags},-rpath,$ORIGIN:/opt/mpi/lib")
    with program.open("rb") as stream:
        needs = elf.needs(stream)
    assert needs is not None
    assert needs.libraries[0] == NAME
    assert any(one.startswith("libc.") for one in needs.libraries)
    assert needs.folders == ("$ORIGIN", "/opt/mpi/lib")
    assert elf.soname(tmp_path / NAME) == NAME
    assert elf.soname(program) == ""


@needs_compiler
def test_a_program_that_needs_nothing_and_a_torn_one(tmp_path: Path) -> None:
    whole = build(tmp_path).read_bytes()
    for size in (0, 63, 64, 100, len(whole) // 2):
        elf.needs(io.BytesIO(whole[:size]))
    assert elf.needs(io.BytesIO(b"#!/bin/sh\n")) is None
    (tmp_path / "bare.c").write_text("void _start(void) { for (;;); }\n")
    words = ("cc", "-static", "-nostdlib", "bare.c", "-o", "bare")
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    with (tmp_path / "bare").open("rb") as stream:
        assert elf.needs(stream) is None


@given(st.binary(max_size=400), st.integers(0, 400), st.binary(max_size=8))
def test_anything_may_be_a_program(data: bytes, place: int, change: bytes) -> None:
    elf.needs(io.BytesIO(b"\x7fELF\x02\x01" + data))
    with Path(sys.executable).resolve().open("rb") as stream:
        own = stream.read(4096)
    elf.needs(io.BytesIO(own[:place] + change + own[place + len(change) :]))


NAMES = {
    "libmpi.so.12": "MPICH",
    "libmpich.so.12": "MPICH",
    "libmpichfort.so.12": "MPICH",
    "libmpifort.so.12": "MPICH",
    "libmpicxx.so.12": "MPICH",
    "libmpi_cray.so.12": "MPICH",
    "libmpi_gnu_123.so.12": "MPICH",
    "libmpi.so.40": "Open MPI",
    "libmpi.so.20": "Open MPI",
    "libmpi_mpifh.so.40": "Open MPI",
    "libmpi_usempif08.so.40": "Open MPI",
    "libmpi_usempi_ignore_tkr.so.40": "Open MPI",
    "libmpi_cxx.so.40": "Open MPI",
    "libmpi_ibm.so.3": "Open MPI",
    "libmpi.so.0": None,
    "libmpi.so": None,
    "libmpi_abi.so.0": None,
}


@pytest.mark.parametrize("name", NAMES)
def test_libraries_of_mpi_are_known_by_name(name: str) -> None:
    assert families.is_library(name)
    family = families.find_by_name(name)
    assert (family and family.name) == NAMES[name]


@pytest.mark.parametrize(
    "name", ["libmpir.so.23", "libmpfr.so.6", "libmpdec.so.3", "libmpi.a", "libompi.so.1", "mpi.so"]
)
def test_other_libraries_are_none_of_mpi(name: str) -> None:
    assert not families.is_library(name)
