"""What a rank leaves out where the others are not there, so that any number of them can be."""

from __future__ import annotations

from typing import Any

import torch

from ..communicators import Communicator
from .exchanges import Exchange, flatten
from .ranks import EXCHANGES
from .staleness import Asynchronous, Server, serve


def choose(name: str) -> type[Exchange]:
    """What exchanges by a scheme.

    Args:
        name: Key of `catalog.schemes.SCHEMES`.
    """
    kind = EXCHANGES[name]
    return OneByOne if issubclass(kind, Asynchronous) else kind


class Alone(Communicator):
    """Counts as any, and returns nothing to reckon with: others' values would be none of theirs."""

    def gather(self, flat: Any) -> list[Any]:
        """The first of as many arrays as there are ranks."""
        return super().gather(flat)[:1]

    def _make_room(self, flat: Any) -> list[Any]:
        """One array for all: 65,536 of a small network's would be gigabytes that nobody reads."""
        return [torch.empty_like(flat)] * self.ranks


class OneByOne(Asynchronous):
    """A server that serves ranks in turn, where the real one has a thread for each."""

    def open(self, steps: int) -> None:
        """Serve all others in so many steps of theirs."""
        if self.server is None:
            return
        self.server = Idle(self.member, 0)
        size = flatten(self.member.leaves.values())
        self._traffic = [[] for _ in range(1, self.communicator.ranks)]
        for peer, traffic in enumerate(self._traffic, 1):
            serve(self.server, peer, size, steps, traffic)


class Idle(Server):
    """A server that steps by nothing, and lets nobody wait."""

    def take(self, rank: int, gradients: Any, communicator: Communicator) -> Any:
        """Give a rank an array of the size of the parameters."""
        del rank, communicator
        return gradients

    def fail(self, reason: str) -> None:
        """Whoever has left is this process."""
        raise RuntimeError(reason)
