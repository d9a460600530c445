"""Placement of ranks on nodes, and the inventory of these nodes."""

from __future__ import annotations

import secrets

from capsule import inventory
from capsule.execute.workspace import Workspace
from capsule.jsons import JsonObject
from capsule.launch.base import Launcher, Surveys


def this_node(workspace: Workspace) -> JsonObject:
    """Return the inventory of this node."""
    header = workspace.header
    return inventory.node(salt=header.salt, keep_hosts=header.keep_hosts)


def place(workspace: Workspace, launcher: Launcher, ranks: int) -> tuple[int, ...]:
    """Keep the inventory of every node of the ranks that is new; the index of that of each rank.

    Raises:
        CannotRunError: The launcher cannot start ranks, or not where they are to be.
    """
    if not isinstance(launcher, Surveys):
        return (workspace.add_node(this_node(workspace)),) * ranks
    header = workspace.header
    inventories = launcher.survey(
        salt=header.salt,
        keep_hosts=header.keep_hosts,
        folder=workspace.folder / f"survey-{secrets.token_hex(4)}",
    )
    return tuple(map(workspace.add_node, inventories))
