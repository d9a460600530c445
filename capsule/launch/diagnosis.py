"""Diagnosis of ranks that formed another world than planned, with the likely cause and remedy."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from capsule.launch import libraries, rendezvous
from capsule.launch.faults import Fault
from capsule.launch.worldreports import Report, Sum
from capsule.runtimes.base import Invocation

BYTES = 8 * 2**20
"""Test of an all-reduce: number i of the sum must be the number of ranks + i + 1."""

RANK, RANKS, LOCAL_RANK = "CAPSULE_RANK", "CAPSULE_RANKS", "CAPSULE_LOCAL_RANK"
_SHOWN = 8


def find_fault(
    reports: Sequence[Report],
    invocations: Sequence[Invocation],
    nodes: Sequence[int],
    launcher: str,
) -> Fault | None:
    """Return the fault in the reports so far, or None.

    Args:
        reports: By rank, as they were started.
        invocations: As they were started.
        nodes: Index of the node that each was to run on.
        launcher: Name of what started them.
    """
    faults: tuple[Callable[[], Fault | None], ...] = (
        lambda: _find_stranger(reports, invocations),
        lambda: rendezvous.find_elsewhere(reports, invocations, nodes),
        lambda: _find_wrong_node(reports, nodes),
        lambda: libraries.find_difference(reports),
        lambda: next(_world_faults(reports, launcher), None),
        lambda: next(_sum_faults(reports), None),
    )
    return next(filter(None, (find() for find in faults)), None)


def find_dropout(reports: Sequence[Report], words: Sequence[str], launcher: str) -> Fault | None:
    """Return the fault of a rank that arrived, but failed to exchange data.

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
    reason = reports[causes[0]].message or words[causes[0]] or "ended without output"
    return Fault(
        what=f"{_name(causes)} arrived, but failed to exchange data with the other ranks: {reason}",
        advice=_explain_stop(reports, launcher),
    )


def explain_absence(ranks: Sequence[int], words: str) -> Fault:
    """Return some ranks never came to their program.

    Args:
        ranks: Those.
        words: What was heard of it, empty for nothing.
    """
    return Fault(
        what=f"{_name(ranks)} never started" + (f": {words}" if words else ""),
        advice="check that the launcher starts one task for each rank, and that every node is up"
        " and has the image's engine",
    )


def explain_silence(reports: Sequence[Report], launcher: str, seconds: float) -> Fault:
    """Return the fault of a running world that stopped reporting.

    Args:
        reports: By rank, as far as they go.
        launcher: Name of what started them.
        seconds: Seconds of silence.
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
        what = (
            f"all {len(reports)} ranks arrived, but {_name(apart)} reached no other rank {within}"
        )
    else:
        left = [rank for rank, one in enumerate(reports) if not one.done]
        what = (
            f"all ranks reached each other, but {_name(left)} did not finish an all-reduce of"
            f" {BYTES >> 20} MiB {within}"
        )
    return Fault(what=what, advice=_explain_stop(reports, launcher))


def _find_stranger(reports: Sequence[Report], invocations: Sequence[Invocation]) -> Fault | None:
    """Return a rank that takes itself for another one than was started in its place."""
    numbers: dict[str, int] = {}
    for rank, (report, started) in enumerate(zip(reports, invocations, strict=True)):
        if not report.arrived:
            continue
        due = started.environment
        own, ranks = report.variables.get(RANK), report.variables.get(RANKS)
        if own is None or ranks is None:
            missing = [name for name in (RANK, RANKS) if report.variables.get(name) is None]
            return Fault(
                what=f"rank {rank} lacks {' and '.join(missing)}, and so acts as the only rank",
                advice="find the command between launcher and program that clears the environment"
                " (env -i, --cleanenv, a script in place of python3), and have it pass on"
                " CAPSULE_*",
            )
        if own != due[RANK] or own in numbers:
            other = numbers.get(own)
            both = f", as rank {other} has" if other is not None else ""
            return Fault(
                what=f"rank {rank} has {RANK}={own}{both}, expected {due[RANK]}",
                advice=f"find the command in the image that changes {RANK}, and remove the change",
            )
        numbers[own] = rank
        if ranks != due[RANKS]:
            return Fault(
                what=f"rank {rank} expects a world of {ranks} ranks, but {due[RANKS]} were started",
                advice=f"find the command that changes {RANKS}: the ranks would form separate"
                " worlds",
            )
        local = report.variables.get(LOCAL_RANK)
        if local != due.get(LOCAL_RANK):
            return Fault(
                what=f"rank {rank} has {LOCAL_RANK}={local}, expected {due.get(LOCAL_RANK)}",
                advice=f"find the command that changes {LOCAL_RANK}: two ranks would share a"
                " device",
            )
    return None


def _find_wrong_node(reports: Sequence[Report], nodes: Sequence[int]) -> Fault | None:
    """Return ranks that run on other nodes than they were to, as far as these have names."""
    ranks: dict[int, int] = {}
    names: dict[str, int] = {}
    for rank, (report, node) in enumerate(zip(reports, nodes, strict=True)):
        if not report.arrived:
            continue
        first = ranks.setdefault(node, rank)
        if reports[first].node != report.node:
            return Fault(
                what=f"ranks {first} and {rank} should run on one node, but run on"
                f" {reports[first].node} and {report.node}",
                advice="have the launcher place ranks node by node: in another order, two ranks"
                " would share a device",
            )
        other = names.setdefault(report.node, node)
        if other != node:
            return Fault(
                what=f"ranks {ranks[other]} and {rank} should run on two nodes, but both run on"
                f" {report.node}",
                advice="check the number of nodes of the allocation",
            )
    return None


def _world_faults(reports: Sequence[Report], launcher: str) -> Iterator[Fault]:
    """Yield faults of ranks that a library shows in another world."""
    for rank, report in enumerate(reports):
        for one in report.sums:
            if (one.rank, one.ranks) == (rank, len(reports)):
                continue
            if one.ranks == 1:
                what = f"rank {rank} is alone in its world according to {one.means}"
            else:
                what = f"rank {rank} is number {one.rank} of {one.ranks} according to {one.means}"
            yield Fault(
                what=f"{what}, but {len(reports)} ranks were started",
                advice=libraries.explain_world(report, launcher)
                if one.means == "mpi"
                else _explain_meeting(reports),
            )


def _sum_faults(reports: Sequence[Report]) -> Iterator[Fault]:
    """Yield sums that are not those of all ranks, each once and whole."""
    for rank, report in enumerate(reports):
        for one in report.sums:
            if one.bytes and (one.bytes != BYTES or one.digest != _due_digest(len(reports))):
                yield Fault(
                    what=f"wrong sum of {BYTES >> 20} MiB over all ranks at rank {rank}, by"
                    f" {one.means}: {_describe_sum(one)}",
                    advice="try another transport (GLOO_SOCKET_IFNAME, UCX_TLS): this one loses or"
                    " repeats parts of large messages",
                )


def _describe_sum(one: Sum) -> str:
    if one.bytes != BYTES:
        return f"{one.bytes} of {BYTES} bytes arrived"
    counts = one.faults.get("counts")
    if isinstance(counts, dict) and counts:
        found = ", ".join(
            f"the part of rank {rank} is in the sum {count:g} times"
            for rank, count in counts.items()
            if isinstance(count, int | float)
        )
        return f"{found}; expected the part of each rank once"
    wrong, first = one.faults.get("wrong"), one.faults.get("first")
    return f"{wrong} of {BYTES // 8} numbers are wrong, from number {first} on"


@cache
def _due_digest(ranks: int) -> str:
    due = array("d", map(float, range(ranks + 1, ranks + 1 + BYTES // 8)))
    return hashlib.sha256(due).hexdigest()


def _explain_stop(reports: Sequence[Report], launcher: str) -> str:
    """Return why ranks that arrived got no further."""
    in_mpi = [one for one in reports if one.library and not one.done]
    return libraries.explain_world(in_mpi[0], launcher) if in_mpi else _explain_meeting(reports)


def _explain_meeting(reports: Sequence[Report]) -> str:
    """Return why ranks that run do not come together."""
    hosts = {one.host for one in reports if one.arrived}
    if len(hosts) > 1:
        return (
            "check that all nodes share the run folder, that no firewall is between them, and that"
            " each node's name resolves to an address in their common network (GLOO_SOCKET_IFNAME"
            " in the image selects another network)"
        )
    return "check that the ranks, all on one machine, can use its network and write the run folder"


def _name(ranks: Sequence[int]) -> str:
    """Return ranks by their numbers, of many the first few."""
    shown = ", ".join(map(str, ranks[:_SHOWN]))
    more = f" and {len(ranks) - _SHOWN} more" if len(ranks) > _SHOWN else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"
