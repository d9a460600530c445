"""What starts the ranks of a process group: one launcher a module."""

from __future__ import annotations

from dataclasses import replace

from capsule.errors import CannotRunError
from capsule.launch.base import Launcher
from capsule.launch.local import Local
from capsule.manifest.model import Resources
from capsule.runtimes.base import NETWORK, Prepared, Runtime

_SHARED = "its ranks share this machine's own, to reach each other"


def choose(resources: Resources) -> Launcher:
    """The launcher that starts the ranks of these resources here.

    Raises:
        CannotRunError: There is none.
    """
    if resources.nodes > 1:
        raise CannotRunError(
            f"{resources.nodes} nodes are asked for, and ranks are started on this one alone",
            where="/resources/nodes",
            advice="set nodes to 1, and ranks_per_node to how many ranks one node is to run",
        )
    return Local()


def share_network(prepared: Prepared, runtime: Runtime, resources: Resources) -> Prepared:
    """An image as its containers are started: several ranks have to reach each other.

    Containers without a network each have a loopback interface of their own.
    """
    if resources.ranks == 1 or not runtime.contained:
        return prepared
    observations = {**prepared.observations, NETWORK: f"none: {_SHARED}"}
    return replace(prepared, observations=observations, open_network=_SHARED)
