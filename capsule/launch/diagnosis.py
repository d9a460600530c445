"""Why ranks are another world than was planned: what most likely is at fault, and mends it."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlparse

from capsule.launch import families
from capsule.launch.worldreports import Report, Sum
from capsule.runtimes.base import Invocation

BYTES = 8 * 2**20
"""That ranks add up: the sum at place i of float64 numbers is to be the number of ranks + i + 1."""

RANK, RANKS, LOCAL_RANK = "CAPSULE_RANK", "CAPSULE_RANKS", "CAPSULE_LOCAL_RANK"
RENDEZVOUS = "CAPSULE_RENDEZVOUS"
_LOOPBACK = ("localhost", "127.", "::1", "0.0.0.0")  # noqa: S104 - none to listen at
_UNEXPANDED = ("$", "%", "{", "}", "`", "<", ">")
_SHOWN = 8
_OF_OPEN_MPI = ("OMPI_", "PMIX_")
_OTHER_MPIRUN = "put a mpirun of the image's family first on the PATH"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is wrong with a world.

    Attributes:
        what: One sentence.
        advice: The likely cause, and what mends it.
    """

    what: str
    advice: str


def find_obstacle(invocations: Sequence[Invocation], nodes: Sequence[int]) -> Fault | None:
    """Why ranks that are started like this could never meet; None where they could.

    Args:
        invocations: By rank.
        nodes: Index of the node of each.
    """
    for place in {one.environment.get(RENDEZVOUS) for one in invocations}:
        if place is not None and place.startswith("file://"):
            # a folder may be called anything
            continue
        fault = _explain_place(place, are_apart=len(set(nodes)) > 1)
        if fault is not None:
            return Fault(what=f"ranks would meet at {place!r}: {fault.what}", advice=fault.advice)
    return None


def find_fault(
    reports: Sequence[Report],
    invocations: Sequence[Invocation],
    nodes: Sequence[int],
    launcher: str,
) -> Fault | None:
    """What is wrong in what ranks have said so far; None where nothing is.

    Args:
        reports: By rank, as they were started.
        invocations: As they were started.
        nodes: Index of the node that each was to run on.
        launcher: Name of what started them.
    """
    faults: tuple[Callable[[], Fault | None], ...] = (
        lambda: _find_stranger(reports, invocations),
        lambda: _find_elsewhere(reports, invocations, nodes),
        lambda: _find_wrong_node(reports, nodes),
        lambda: next(_world_faults(reports, launcher), None),
        lambda: next(_sum_faults(reports), None),
    )
    return next(filter(None, (find() for find in faults)), None)


def find_stranger_mpi(report: Report, family: str) -> Fault | None:
    """Why the image's MPI can make no world, by what one rank says that was started by itself.

    Args:
        report: Of a rank that was asked which MPI it has.
        family: Of the launcher's own MPI, empty where it has none.
    """
    if report.message:
        return Fault(
            what=f"the image's mpi4py cannot be loaded: {report.message}",
            advice="its library of MPI is not where it looks: name it in MPI4PY_LIBMPI or"
            " LD_LIBRARY_PATH of the image, or have the site file's binds show it",
        )
    own = families.find(report.library)
    if not family or own is None or own.name == family:
        return None
    return Fault(
        what=f"two families of MPI: mpirun here is {family}'s, and the image has {report.library}",
        advice=f"each rank would be alone in its world, or never come to be: {_OTHER_MPIRUN}; or"
        ' have ranks that need no MPI started by "launcher": "local"',
    )


def find_dropout(reports: Sequence[Report], words: Sequence[str], launcher: str) -> Fault | None:
    """What kept a rank from adding up with the others, though all arrived.

    Args:
        reports: By rank, of ranks that have ended.
        words: What each said last.
        launcher: Name of what started them.
    """
    silent = [rank for rank, one in enumerate(reports) if not one.done]
    if not silent:
        return None
    # those that say why come first: the others were ended with them
    causes = [rank for rank in silent if reports[rank].message or words[rank]] or silent
    reason = reports[causes[0]].message or words[causes[0]] or "ended without a word"
    return Fault(
        what=f"{_name(causes)} arrived and did not add up with the others: {reason}",
        advice=_explain_stop(reports, launcher),
    )


def explain_absence(ranks: Sequence[int], words: str) -> Fault:
    """Some ranks never came to their program.

    Args:
        ranks: Those.
        words: What was heard of it, empty for nothing.
    """
    return Fault(
        what=f"{_name(ranks)} never started" + (f": {words}" if words else ""),
        advice="the others would wait in vain: see that the launcher starts as many tasks as"
        " there are ranks, and that every node of them is up and has the image's engine",
    )


def explain_silence(reports: Sequence[Report], launcher: str, seconds: float) -> Fault:
    """Nothing was heard of a world any more, which runs on.

    Args:
        reports: By rank, as far as they go.
        launcher: Name of what started them.
        seconds: Of silence.
    """
    within = f"within {seconds:.0f} s"
    missing = [rank for rank, one in enumerate(reports) if not one.arrived]
    if missing:
        fault = explain_absence(missing, "")
        return Fault(
            what=f"{_name(missing)} of {len(reports)} did not arrive {within}", advice=fault.advice
        )
    apart = [rank for rank, one in enumerate(reports) if not one.sums]
    if apart:
        what = f"all {len(reports)} ranks arrived, and {_name(apart)} met nobody {within}"
    else:
        left = [rank for rank, one in enumerate(reports) if not one.done]
        what = f"all ranks met, and {_name(left)} did not add up {BYTES >> 20} MiB {within}"
    return Fault(what=what, advice=_explain_stop(reports, launcher))


def _find_stranger(reports: Sequence[Report], invocations: Sequence[Invocation]) -> Fault | None:
    """A rank that takes itself for another one than was started in its place."""
    numbers: dict[str, int] = {}
    for rank, (report, started) in enumerate(zip(reports, invocations, strict=True)):
        if not report.arrived:
            continue
        due = started.environment
        own, ranks = report.variables.get(RANK), report.variables.get(RANKS)
        if own is None or ranks is None:
            return Fault(
                what=f"rank {rank} does not know who it is and takes itself for alone: {RANK} or"
                f" {RANKS} did not reach it",
                advice="something between the launcher and its program begins with a clean"
                " environment (env -i, --cleanenv, a script in place of python3): let the"
                " variables CAPSULE_* through",
            )
        if own != due[RANK] or own in numbers:
            other = numbers.get(own)
            both = f", as rank {other} does" if other is not None else ""
            return Fault(
                what=f"rank {rank} says that it is rank {own}{both}",
                advice=f"something sets {RANK} for every rank alike, or hands ranks each other's:"
                " look at what starts the program inside the image",
            )
        numbers[own] = rank
        if ranks != due[RANKS]:
            return Fault(
                what=f"rank {rank} takes its world for one of {ranks}, and {due[RANKS]} ranks were"
                " started",
                advice=f"something sets {RANKS} anew: each such world would go on by itself",
            )
        local = report.variables.get(LOCAL_RANK)
        if local != due.get(LOCAL_RANK):
            return Fault(
                what=f"rank {rank} takes itself for number {local} on its node, and is number"
                f" {due.get(LOCAL_RANK)}",
                advice=f"something sets {LOCAL_RANK} anew: two ranks would take one device",
            )
    return None


def _find_elsewhere(
    reports: Sequence[Report], invocations: Sequence[Invocation], nodes: Sequence[int]
) -> Fault | None:
    """A rank that would look for the others where they are not.

    Of ranks on several nodes the launcher may have named the place once they had begun.
    """
    is_far = len(set(nodes)) > 1
    agreed: str | None = None
    for rank, (report, started) in enumerate(zip(reports, invocations, strict=True)):
        if not report.arrived:
            continue
        place, due = report.variables.get(RENDEZVOUS), started.environment.get(RENDEZVOUS)
        likely = None if place == due else _explain_place(place, are_apart=True)
        if likely is None and place != ((agreed or place) if is_far else due):
            likely = _ELSEWHERE
        if likely is not None:
            return Fault(
                what=f"rank {rank} would meet the others at {place!r}: {likely.what}",
                advice=likely.advice,
            )
        agreed = place
    return None


_ELSEWHERE = Fault(
    what="the others are somewhere else",
    advice=f"something sets {RENDEZVOUS} anew: each such world would go on by itself",
)


def _explain_place(place: str | None, *, are_apart: bool) -> Fault | None:
    """Why ranks never meet at a place; `are_apart` where they are on several nodes."""
    if place is None:
        return Fault(
            what="it names no place",
            advice=f"something takes {RENDEZVOUS} away: each rank would go on by itself",
        )
    if any(sign in place for sign in _UNEXPANDED):
        return _LITERAL
    host = urlparse(place).hostname or ""
    if are_apart and host.startswith(_LOOPBACK):
        return Fault(
            what=f"{host} is each node itself",
            advice="the host of the rendezvous falls back to it where no tool of the scheduler"
            " (scontrol) is in the image, and each node would form a world of its own: let the"
            " launcher name it from outside",
        )
    return None


_LITERAL = Fault(
    what="nobody has expanded it",
    advice="a variable of the shell stands there as it was written: each rank would wait in, or"
    " form, a world of its own; write it where a shell reads it, or name the place in full",
)


def _find_wrong_node(reports: Sequence[Report], nodes: Sequence[int]) -> Fault | None:
    """Ranks that run on other nodes than they were to, as far as these have names."""
    ranks: dict[int, int] = {}
    names: dict[str, int] = {}
    for rank, (report, node) in enumerate(zip(reports, nodes, strict=True)):
        if not report.arrived:
            continue
        first = ranks.setdefault(node, rank)
        if reports[first].node != report.node:
            return Fault(
                what=f"ranks {first} and {rank} were to run on one node, and run on"
                f" {reports[first].node} and {report.node}",
                advice="the launcher hands out ranks in another order than by node: their numbers"
                " on a node would be wrong, and two of them take one device",
            )
        other = names.setdefault(report.node, node)
        if other != node:
            return Fault(
                what=f"ranks {ranks[other]} and {rank} were to run on two nodes, and both run on"
                f" {report.node}",
                advice="the launcher starts all on one node: see how many the allocation has",
            )
    return None


def _world_faults(reports: Sequence[Report], launcher: str) -> Iterator[Fault]:
    """What a library showed as the world, where it is another one."""
    for rank, report in enumerate(reports):
        for one in report.sums:
            if (one.rank, one.ranks) == (rank, len(reports)):
                continue
            if one.ranks == 1:
                what = f"rank {rank} is alone in its world by {one.means}"
            else:
                what = f"rank {rank} is number {one.rank} of {one.ranks} by {one.means}"
            yield Fault(
                what=f"{what}, and {len(reports)} ranks were started",
                advice=_explain_mpi(report, launcher)
                if one.means == "mpi"
                else _explain_meeting(reports),
            )


def _explain_mpi(report: Report, launcher: str) -> str:
    """Why MPI has another world than the launcher."""
    library = report.library or "the image's MPI"
    if not report.launcher:
        of_slurm = ", as srun --mpi=none does" if launcher == "srun" else ""
        variables = (
            "mpirun does so by variables (PMI_*, PMIX_*, OMPI_*), which did not reach it: something"
            " begins with a clean environment"
            if launcher == "mpirun"
            else 'a mpirun of its family does: "launcher": "mpirun" in the site file'
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


def _sum_faults(reports: Sequence[Report]) -> Iterator[Fault]:
    """Sums that are not those of all ranks, each once and whole."""
    for rank, report in enumerate(reports):
        for one in report.sums:
            if one.bytes and (one.bytes != BYTES or one.digest != _due_digest(len(reports))):
                yield Fault(
                    what=f"the sum of {BYTES >> 20} MiB over all ranks is wrong at rank {rank}, by"
                    f" {one.means}: {_describe_sum(one)}",
                    advice="a transport that loses or repeats parts of large messages gives"
                    " plausible numbers: try another one (GLOO_SOCKET_IFNAME, UCX_TLS), and let"
                    " nothing between the ranks change what they send",
                )


def _describe_sum(one: Sum) -> str:
    if one.bytes != BYTES:
        return f"{one.bytes} bytes of {BYTES} came"
    counts = one.faults.get("counts")
    if isinstance(counts, dict) and counts:
        return ", ".join(
            f"what rank {rank} gave is in it {count:g} times"
            for rank, count in counts.items()
            if isinstance(count, int | float)
        )
    wrong, first = one.faults.get("wrong"), one.faults.get("first")
    return f"{wrong} of {BYTES // 8} numbers, from number {first} on"


@cache
def _due_digest(ranks: int) -> str:
    due = array("d", map(float, range(ranks + 1, ranks + 1 + BYTES // 8)))
    return hashlib.sha256(due).hexdigest()


def _explain_stop(reports: Sequence[Report], launcher: str) -> str:
    """Why ranks that arrived got no further."""
    in_mpi = [one for one in reports if one.library and not one.done]
    return _explain_mpi(in_mpi[0], launcher) if in_mpi else _explain_meeting(reports)


def _explain_meeting(reports: Sequence[Report]) -> str:
    """Why ranks that run do not come together."""
    hosts = {one.host for one in reports if one.arrived}
    if len(hosts) > 1:
        return (
            "their nodes may not reach each other: see that all share the run's folder, that no"
            " firewall is between them, and that each one's name leads to the network they share"
            " (GLOO_SOCKET_IFNAME in the image says another)"
        )
    return (
        "they are on one machine: see that nothing keeps them from its network and from the run's"
        " shared folder, which all of them write"
    )


def _name(ranks: Sequence[int]) -> str:
    """Ranks by their numbers, of many the first few."""
    shown = ", ".join(map(str, ranks[:_SHOWN]))
    more = f" and {len(ranks) - _SHOWN} more" if len(ranks) > _SHOWN else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"
