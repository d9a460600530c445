"""Consistency of a run's log with its plan: the run folder may have been changed."""

from __future__ import annotations

from collections.abc import Iterator

from capsule.errors import DamagedError
from capsule.execute.log import Begun
from capsule.execute.workspace import Workspace
from capsule.plan import Group, Plan
from capsule.record import Attempt


def check(workspace: Workspace, plan: Plan) -> None:
    """Stop where process starts or attempts are not those of the plan.

    Raises:
        DamagedError: Says which.
    """
    fault = next(_faults(workspace, plan), None)
    if fault is not None:
        raise DamagedError(
            f"the log contradicts the plan of this run: {fault}",
            where=str(workspace.folder / "attempts.jsonl"),
            advice="the run folder was changed; restore the folder, or start a new run",
        )


def _faults(workspace: Workspace, plan: Plan) -> Iterator[str]:
    groups = {group.id: group for group in plan.groups}
    nodes = len(workspace.nodes())
    log = workspace.log
    for number, begun in enumerate(log.starts, start=1):
        yield from _start_faults(number, begun, groups.get(begun.group), nodes)
    tries: dict[str, int] = {}
    for number, attempt in log.attempts:
        tries[attempt.trial] = tries.get(attempt.trial, 0) + 1
        start = log.starts[number - 1] if 1 <= number <= len(log.starts) else None
        if start is None or not _fits(attempt, start, tries[attempt.trial]):
            yield (
                f"attempt {attempt.attempt} of {attempt.trial} matches no process start of the log"
            )


def _start_faults(number: int, begun: Begun, group: Group | None, nodes: int) -> Iterator[str]:
    if group is None or not set(begun.trials) <= {trial.id for trial in group.trials}:
        yield (
            f"process start {number} has group {begun.group[:80]!r} with trials that the plan lacks"
        )
    elif (begun.number, begun.ranks, len(begun.nodes)) != (number, group.ranks, group.ranks):
        yield (
            f"process start {number} is listed with number {begun.number}, {begun.ranks} ranks and"
            f" nodes for {len(begun.nodes)} ranks, expected number {number} and {group.ranks} ranks"
        )
    elif any(node >= nodes for node in begun.nodes):
        yield (
            f"process start {number} ran on node {max(begun.nodes)}, expected a node number below"
            f" {nodes}"
        )


def _fits(attempt: Attempt, begun: Begun, number: int) -> bool:
    return (
        attempt.trial in begun.trials
        and attempt.group == begun.group
        and attempt.attempt == number
        and attempt.ranks == begun.ranks
        and set(attempt.nodes) == set(begun.nodes)
    )
