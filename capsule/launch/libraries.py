"""Libraries of MPI that make no world of the ranks that a launcher starts, and why."""

from __future__ import annotations

from collections.abc import Sequence

from capsule.launch import families
from capsule.launch.faults import Fault
from capsule.launch.worldreports import Report
from capsule.runtimes.base import Library

_OF_OPEN_MPI = ("OMPI_", "PMIX_")
_OTHER_MPIRUN = "put an mpirun of the image's family first on the PATH"
_SRUN = "srun"


def find_stranger(
    report: Report, family: str, launcher: str, expected: Sequence[Library] = ()
) -> Fault | None:
    """Return why the image's MPI can make no world, by what one rank says that was started by
    itself.

    Args:
        report: Report of a rank that was asked which MPI it has.
        family: Family of the launcher's own MPI; empty if it has none.
        launcher: Name of what is to start the ranks.
        expected: Libraries of this machine that it was to load, MPI itself first.
    """
    if expected and report.built and report.path != expected[0].path:
        return _explain_other(report, expected[0])
    if report.message:
        return Fault(
            what=f"cannot load the image's mpi4py: {report.message}",
            advice="name the MPI library in MPI4PY_LIBMPI or LD_LIBRARY_PATH of the image, or add"
            " it to `binds` of the site file",
        )
    own = families.find(report.library)
    if not family or own is None or own.name == family:
        return None
    has = "the image has"
    if expected:
        has = f"{expected[0].path} of this machine (`mpi` of the site file) is"
    if launcher == _SRUN:
        what, advice = (
            f"srun joins only ranks of {family} (--mpi=pmi2)",
            "use an image with MPI of that family, or start ranks on one node with the image's"
            ' mpirun ("launcher": "mpirun")',
        )
    else:
        what, advice = (
            f"mpirun belongs to {family}",
            f'{_OTHER_MPIRUN}; or, for ranks without MPI, set "launcher": "local"',
        )
    return Fault(
        what=f"two families of MPI: {what}, and {has} {report.library}",
        advice=f"{advice} (otherwise each rank forms a separate world, or never starts)",
    )


def _explain_other(report: Report, due: Library) -> Fault:
    """Return why the image's mpi4py does not use the machine's library."""
    built = " or ".join(report.built) or "an unknown MPI"
    came = f"loads {report.library}" if report.library else "is killed when loading this MPI"
    came = f"says {report.message}" if report.message else came
    return Fault(
        what=f"the image's mpi4py was built for {built}, and this machine's MPI is {due.name}, at"
        f" {due.path} in the containers: mpi4py {came}",
        advice="name a library of the image's family, or use an image built for this machine's MPI;"
        " add every file that the machine's library needs to `binds` and `mpi` of the site file",
    )


def find_difference(reports: Sequence[Report]) -> Fault | None:
    """Return ranks whose nodes have other libraries of MPI at one path, as far as all have loaded
    them.

    Args:
        reports: By rank.
    """
    digests = {one.digest: rank for rank, one in reversed(list(enumerate(reports))) if one.digest}
    if len(digests) < 2:
        return None
    (one, first), (other, second) = sorted(digests.items(), key=lambda item: item[1])[:2]
    return Fault(
        what=f"ranks {first} and {second} load two libraries of MPI from one path"
        f" ({reports[first].path}): sha256:{one[:12]}… on {reports[first].node}, and"
        f" sha256:{other[:12]}… on {reports[second].node}",
        advice="install equal libraries on all nodes, at the paths that `binds` names",
    )


def explain_world(report: Report, launcher: str) -> str:
    """Return why MPI has another world than the launcher.

    Args:
        report: Report of a rank in it.
        launcher: Name of what started it.
    """
    library = report.library or "the image's MPI"
    if not report.launcher:
        of_slurm = ", as with srun --mpi=none" if launcher == _SRUN else ""
        variables = (
            "find the command that clears the environment of the ranks"
            if launcher in ("mpirun", _SRUN)
            else 'use an mpirun of the image\'s family ("launcher": "mpirun" in the site file), or'
            ' for MPICH in a Slurm job "launcher": "srun"'
        )
        return (
            f"{library} received no variables of a world (PMI_*, PMIX_*, OMPI_*) from"
            f" {launcher}{of_slurm}; {variables}"
        )
    of_open_mpi = any(name.startswith(_OF_OPEN_MPI) for name in report.launcher)
    speaks = families.OPEN_MPI if of_open_mpi else families.MPICH
    if families.find(library) not in (None, speaks):
        return (
            f"two families of MPI: the launcher is {speaks.name}"
            f" ({report.launcher[0]}), the image has {library}; {_OTHER_MPIRUN}"
        )
    return (
        f"{library} and {launcher} are of one family: compare their versions, and check that no"
        " variable of the image (UCX_TLS, MPIR_CVAR_*, OMPI_MCA_*) selects shared memory, which"
        " containers of one node lack"
    )
