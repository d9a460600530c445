"""Kind of measuring code of a group."""

from __future__ import annotations

from capsule.execute.command import CommandWorkload
from capsule.execute.measuring import LevelsWorkload
from capsule.execute.workload import Workload
from capsule.manifest import Collective, Command, Network, Operator, Reading, Recipe
from capsule.plan import Group


def workload_of(group: Group) -> Workload:
    """Return the workload of a group."""
    match group.subject:
        case Command():
            return CommandWorkload()
        case Operator() | Network() | Recipe() | Reading() | Collective():
            return LevelsWorkload()
