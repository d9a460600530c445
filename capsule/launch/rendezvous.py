"""Places where ranks would meet, and never do: unexpanded, each node itself, or elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlparse

from capsule.launch.base import RENDEZVOUS
from capsule.launch.faults import Fault
from capsule.launch.worldreports import Report
from capsule.runtimes.base import Invocation

_LOOPBACK = ("localhost", "127.", "::1", "0.0.0.0")  # noqa: S104 - none to listen at
_UNEXPANDED = ("$", "%", "{", "}", "`", "<", ">")


def find_obstacle(invocations: Sequence[Invocation], nodes: Sequence[int]) -> Fault | None:
    """Return why ranks that are started like this could never meet; None where they could.

    Args:
        invocations: By rank.
        nodes: Index of the node of each.
    """
    for place in {one.environment.get(RENDEZVOUS) for one in invocations}:
        if place is not None and place.startswith("file://"):
            # a folder may be called anything
            continue
        if fault := _explain(place, are_apart=len(set(nodes)) > 1):
            return Fault(
                what=f"ranks would meet at {_show(place)}: {fault.what}", advice=fault.advice
            )
    return None


def find_change(report: Report, started: Invocation, *, are_apart: bool) -> Fault | None:
    """Return why ranks of an image would never meet, by what one says that was started by itself.

    Args:
        report: Report of that rank.
        started: As it was started, with a place where no other rank ever comes.
        are_apart: True if the ranks are to be on several nodes.
    """
    place = report.variables.get(RENDEZVOUS)
    # who is told nothing at all is found, and better explained, among the others
    if not any(report.variables.values()) or place == started.environment.get(RENDEZVOUS):
        return None
    if fault := _explain(place, are_apart=are_apart):
        return Fault(
            what=f"ranks of this image would meet at {_show(place)}: {fault.what}",
            advice=fault.advice,
        )
    return None


def find_elsewhere(
    reports: Sequence[Report], invocations: Sequence[Invocation], nodes: Sequence[int]
) -> Fault | None:
    """Return a rank that would look for the others where they are not.

    Of ranks on several nodes the launcher may have named the place once they had begun.

    Args:
        reports: By rank.
        invocations: As they were started.
        nodes: Index of the node of each.
    """
    is_far = len(set(nodes)) > 1
    agreed: str | None = None
    for rank, (report, started) in enumerate(zip(reports, invocations, strict=True)):
        if not report.arrived:
            continue
        place, due = report.variables.get(RENDEZVOUS), started.environment.get(RENDEZVOUS)
        likely = None if place == due else _explain(place, are_apart=True)
        expected = (agreed or place) if is_far else due
        if likely is None and place != expected:
            likely = Fault(
                what=f"the other ranks meet at {_show(expected)}",
                advice=f"find the command that changes {RENDEZVOUS}: the ranks would form separate"
                " worlds",
            )
        if likely is not None:
            return Fault(
                what=f"rank {rank} would meet the other ranks at {_show(place)}: {likely.what}",
                advice=likely.advice,
            )
        agreed = place
    return None


def _show(place: str | None) -> str:
    return "no address" if place is None else repr(place)


def _explain(place: str | None, *, are_apart: bool) -> Fault | None:
    """Return why ranks never meet at a place; `are_apart` where they are on several nodes."""
    if place is None:
        return Fault(
            what=f"{RENDEZVOUS} is not set",
            advice=f"find the command that deletes {RENDEZVOUS}: each rank would run alone",
        )
    if any(sign in place for sign in _UNEXPANDED):
        return _LITERAL
    host = urlparse(place).hostname or ""
    if are_apart and host.startswith(_LOOPBACK):
        return Fault(
            what=f"{host} names a different machine on each node",
            advice="name the host in the launcher, outside the image: without scontrol in"
            " the image, each node would form a separate world",
        )
    return None


_LITERAL = Fault(
    what="the address contains an unexpanded shell variable",
    advice="write the address in full, or in a command that a shell runs: otherwise each rank forms"
    " a separate world",
)
