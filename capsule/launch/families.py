"""Families of MPI: ranks whose library is of one are no world of a launcher's of another."""

from __future__ import annotations

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


def find(library: str) -> Family | None:
    """The family of a library by what it says of itself, None where nobody knows.

    >>> find("MPICH Version: 5.0.2").name, find("Open MPI v5.0.11").name, find("FujitsuMPI")
    ('MPICH', 'Open MPI', None)
    """
    return next((one for one in (MPICH, OPEN_MPI) if library.startswith(one.libraries)), None)
