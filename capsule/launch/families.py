"""Families of MPI: ranks whose library is of one are no world of a launcher's of another."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Family:
    """A family of MPI libraries, whose ranks only its own launcher joins.

    Attributes:
        name: As people call it.
        sign: What its `mpirun --version` says, and no other.
        libraries: How what libraries of it say of themselves begins, by their vendors.
        rank: Variable that tells a rank which it is.
        size: Variable that tells it how many there are.
        options: So that all ranks start, whatever the CPUs are, and that none is bound to one.
    """

    name: str
    sign: str
    libraries: tuple[str, ...]
    rank: str
    size: str
    options: tuple[str, ...] = ()


MPICH = Family(
    name="MPICH",
    sign="HYDRA",
    libraries=("MPICH", "MVAPICH", "Intel(R) MPI", "MPI VERSION : CRAY MPICH"),
    rank="PMI_RANK",
    size="PMI_SIZE",
)
OPEN_MPI = Family(
    name="Open MPI",
    sign="Open MPI",
    libraries=("Open MPI", "IBM Spectrum MPI"),
    rank="OMPI_COMM_WORLD_RANK",
    size="OMPI_COMM_WORLD_SIZE",
    options=("--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"),
)


@dataclass(frozen=True, kw_only=True)
class MpiProgram:
    """A program of MPI.

    Attributes:
        word: By which the command starts it.
        library: The first library of MPI that it needs, by name.
        family: Whose that is, None where the name does not tell.
        candidates: Where the rank's loader may find `libmpi` itself, paths and last its name.
    """

    word: str
    library: str
    family: Family | None
    candidates: tuple[str, ...]


def find(library: str) -> Family | None:
    """Return the family of a library by what it says of itself, None where nobody knows.

    >>> find("MPICH Version: 5.0.2").name, find("Open MPI v5.0.11").name, find("FujitsuMPI")
    ('MPICH', 'Open MPI', None)
    """
    return next((one for one in (MPICH, OPEN_MPI) if library.startswith(one.libraries)), None)


# MPI itself, and its parts for Fortran and C++; libmpir is something else
_LIBRARY = re.compile(
    r"libp?mpi(ch\w*|fort\w*|cxx|_mpifh|_usempi\w*|_cxx|_cray\w*|_gnu\w*|_intel\w*|_nvidia\w*|_amd\w*"
    r"|_aocc\w*|_ibm\w*|_abi)?\.so(\.[0-9.]+)?"
)
_OF_OPEN_MPI = re.compile(r"libmpi(_mpifh|_usempi\w*|_cxx|_ibm\w*)\.|libmpi\.so\.([2-9]\d|1\d\d)\b")
_OF_MPICH = re.compile(
    r"libp?mpi(ch|fort|cxx|_cray|_gnu|_intel|_nvidia|_amd|_aocc)|libp?mpi\.so\.12\b"
)


def is_library(name: str) -> bool:
    """Return whether a shared library is MPI, by the name that programs need.

    >>> is_library("libmpi.so.12"), is_library("libmpi_mpifh.so.40"), is_library("libmpir.so.23")
    (True, True, False)
    """
    return _LIBRARY.fullmatch(name) is not None


def find_by_name(name: str) -> Family | None:
    """Return the family of a library by the name that programs need, None where it does not tell.

    >>> find_by_name("libmpifort.so.12").name, find_by_name("libmpi.so.40").name
    ('MPICH', 'Open MPI')
    >>> find_by_name("libmpi.so.0"), find_by_name("libmpi_abi.so.0")
    (None, None)
    """
    if _OF_OPEN_MPI.match(name):
        return OPEN_MPI
    return MPICH if _OF_MPICH.match(name) else None
