"""Libraries of MPI that make no world of the ranks that a launcher starts, and why."""

from __future__ import annotations

from collections.abc import Sequence

from capsule.launch import families
from capsule.launch.faults import Fault
from capsule.launch.worldreports import Report
from capsule.runtimes.base import Library

_OF_OPEN_MPI = ("OMPI_", "PMIX_")
_OTHER_MPIRUN = "put a mpirun of the image's family first on the PATH"
_SRUN = "srun"


def find_stranger(
    report: Report, family: str, launcher: str, expected: Sequence[Library] = ()
) -> Fault | None:
    """Why the image's MPI can make no world, by what one rank says that was started by itself.

    Args:
        report: Of a rank that was asked which MPI it has.
        family: Of the launcher's own MPI, empty where it has none.
        launcher: Name of what is to start the ranks.
        expected: Libraries of this machine that it was to load, MPI itself first.
    """
    if expected and report.built and report.path != expected[0].path:
        return _explain_other(report, expected[0])
    if report.message:
        return Fault(
            what=f"the image's mpi4py cannot be loaded: {report.message}",
            advice="its library of MPI is not where it looks: name it in MPI4PY_LIBMPI or"
            " LD_LIBRARY_PATH of the image, or have the site file's binds show it",
        )
    own = families.find(report.library)
    if not family or own is None or own.name == family:
        return None
    has = "the image has"
    if expected:
        has = f"{expected[0].path} of this machine (`mpi` of the site file) is"
    if launcher == _SRUN:
        what, advice = (
            f"srun joins ranks of {family} alone (--mpi=pmi2)",
            "take an image with MPI of that family, or have a mpirun of the image's start ranks on"
            ' one node ("launcher": "mpirun")',
        )
    else:
        what, advice = (
            f"mpirun here is {family}'s",
            f'{_OTHER_MPIRUN}; or have ranks that need no MPI started by "launcher": "local"',
        )
    return Fault(
        what=f"two families of MPI: {what}, and {has} {report.library}",
        advice=f"each rank would be alone in its world, or never come to be: {advice}",
    )


def _explain_other(report: Report, due: Library) -> Fault:
    """Why the image's mpi4py does not use the machine's library."""
    built = " or ".join(report.built) or "an MPI that it does not tell"
    came = f"loads {report.library}" if report.library else "is killed by it"
    came = f"says {report.message}" if report.message else came
    return Fault(
        what=f"the image's mpi4py was built for {built}, and this machine's MPI is {due.name}, at"
        f" {due.path} of the containers: it {came}",
        advice="the two have to be of one ABI, and all that the machine's library needs has to be"
        " in `binds` and `mpi` of the site file: name a library of the family that the image was"
        " built for, or take an image for this one",
    )


def find_difference(reports: Sequence[Report]) -> Fault | None:
    """Ranks whose nodes have other libraries of MPI at one path, as far as all have loaded them.

    Args:
        reports: By rank.
    """
    digests = {one.digest: rank for rank, one in reversed(list(enumerate(reports))) if one.digest}
    if len(digests) < 2:
        return None
    (one, first), (other, second) = sorted(digests.items(), key=lambda item: item[1])[:2]
    return Fault(
        what=f"ranks {first} and {second} load two libraries of MPI by one path: sha256:{one[:12]}…"
        f" on {reports[first].node}, and sha256:{other[:12]}… on {reports[second].node}",
        advice="nodes have to be alike: see what `binds` of the site file shows on each",
    )


def explain_world(report: Report, launcher: str) -> str:
    """Why MPI has another world than the launcher.

    Args:
        report: Of a rank in it.
        launcher: Name of what started it.
    """
    library = report.library or "the image's MPI"
    if not report.launcher:
        of_slurm = ", as srun --mpi=none does" if launcher == _SRUN else ""
        variables = (
            f"{launcher} does so by variables (PMI_*, PMIX_*, OMPI_*), which did not reach it:"
            " something begins with a clean environment"
            if launcher in ("mpirun", _SRUN)
            else 'a mpirun of its family does: "launcher": "mpirun" in the site file; in a job of'
            " Slurm's \"srun\", where it is of MPICH's"
        )
        return f"{launcher} says nothing of a world to {library}{of_slurm}; {variables}"
    of_open_mpi = any(name.startswith(_OF_OPEN_MPI) for name in report.launcher)
    speaks = families.OPEN_MPI if of_open_mpi else families.MPICH
    if families.find(library) not in (None, speaks):
        return (
            f"two families of MPI: the launcher speaks as {speaks.name} does"
            f" ({report.launcher[0]}), and the image has {library}; {_OTHER_MPIRUN}"
        )
    return (
        f"{library} and {launcher} are of one family: compare their versions; see that no variable"
        " of the image (UCX_TLS, MPIR_CVAR_*, OMPI_MCA_*) names a transport that containers of one"
        " node, which share no memory, do not have"
    )
