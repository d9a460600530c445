"""What starts the ranks of a process group: one launcher a module."""

from __future__ import annotations

from capsule.errors import CannotRunError
from capsule.launch.base import Launcher
from capsule.launch.local import Local


def choose(ranks: int) -> Launcher:
    """The launcher that starts so many ranks here.

    Raises:
        CannotRunError: There is none.
    """
    if ranks == 1:
        return Local()
    raise CannotRunError(
        f"{ranks} ranks are asked for, and no launcher of this version starts more than one",
        where="/resources",
        advice="set nodes and ranks_per_node to 1",
    )
