"""A parameter server that takes a step by every gradient on its own, as soon as it is there.

Rank 0 trains like the others, and has a thread for each of them that receives its gradients and
sends parameters back. Their steps count by `clocks`, how many each rank has taken; whoever is more
than `staleness` ahead of the slowest waits for parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from threading import Condition, Thread
from typing import Any

import torch

from ..communicators import Communicator, Traffic
from ..frameworks.torch.training import keep
from .exchanges import Exchange, Member, fill, flatten


class Server:
    """Parameters that all ranks move.

    Attributes:
        communicator: Rank 0's.
        order: What happened: a rank whose gradients were applied, and after it True where it was
            handed parameters and False where it was not yet.
        most: Steps that a rank was ahead of the slowest when it was handed parameters, at most.
    """

    def __init__(self, member: Member, bound: float) -> None:
        """Create an exchange without steps.

        Args:
            member: Rank 0.
            bound: Steps that a rank may be ahead of the slowest.
        """
        leaves = [one.detach().clone().requires_grad_() for one in member.leaves.values()]
        self._leaves, self._optimizer = leaves, member.start(leaves)
        self._rate, self._bound = member.rate, bound
        self.communicator = member.communicator
        self._turn = Condition()
        self._clocks = [0] * member.communicator.ranks
        self._failure: str | None = None
        self.order: list[tuple[int, bool]] = []
        self.most = 0

    def take(self, rank: int, gradients: Any, communicator: Communicator) -> Any:
        """Take a step by a rank's weighed gradients, and give it parameters as soon as it may have
        them.

        Raises:
            RuntimeError: Another rank has left.
        """
        with self._turn:
            self._apply(rank, gradients)
            self._turn.notify_all()
            with communicator.wait():
                self._turn.wait_for(lambda: self._failure or self._ahead(rank) <= self._bound)
            if self._failure:
                raise RuntimeError(f"a rank has ended early: {self._failure}")
            self.order.append((rank, True))
            self.most = max(self.most, self._ahead(rank))
            return flatten(self._leaves)

    def list_tensors(self) -> list[Any]:
        """Return tensors that are there between steps."""
        names = tuple(map(str, range(len(self._leaves))))
        gradients = [one.grad for one in self._leaves if one.grad is not None]
        return [*self._leaves, *gradients, *keep(self._optimizer, names).values()]

    def fail(self, reason: str) -> None:
        """Let nobody wait any more; not by the error itself, whose frames keep connections open."""
        with self._turn:
            self._failure = self._failure or reason
            self._turn.notify_all()

    def _ahead(self, rank: int) -> int:
        return self._clocks[rank] - min(self._clocks)

    def _apply(self, rank: int, gradients: Any) -> None:
        for one in self._leaves:
            one.grad = torch.empty_like(one)
        fill([one.grad for one in self._leaves], gradients)
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate(self._clocks[rank])
        self._optimizer.step()
        self._clocks[rank] += 1
        self.order.append((rank, False))


class Asynchronous(Exchange):
    """`asynchronous-parameter-server` and `stale-synchronous`.

    Attributes:
        server: Server; only on rank 0.
    """

    def __init__(self, member: Member) -> None:
        """See `Exchange`."""
        super().__init__(member)
        bound = member.numbers.get("staleness", inf)
        self.server = None if self.communicator.rank else Server(member, bound)
        self._threads: list[Thread] = []
        self._traffic: list[list[Traffic]] = []

    def open(self, steps: int) -> None:
        """Serve all others in so many steps of theirs."""
        if self.server is None:
            return
        self.server.order, self.server.most = [], 0
        size = flatten(self.member.leaves.values())
        self._traffic = [[] for _ in range(1, self.communicator.ranks)]
        self._threads = [
            Thread(target=serve, args=(self.server, peer, size, steps, traffic), daemon=True)
            for peer, traffic in enumerate(self._traffic, 1)
        ]
        for one in self._threads:
            one.start()

    def before_step(self) -> None:
        """Hand over gradients, and get parameters, which the rank's own optimizer leaves alone."""
        flat = self.member.weigh()
        self.member.drop_gradients()
        if self.server is not None:
            flat = self.server.take(0, flat, self.communicator)
        else:
            self.communicator.send(flat, 0)
            self.communicator.receive(flat, 0)
        fill(self.member.leaves.values(), flat)

    def list_tensors(self) -> Sequence[Any]:
        """List the tensors, the server's included."""
        return [*super().list_tensors(), *(self.server.list_tensors() if self.server else ())]

    def close(self) -> Sequence[Traffic]:
        """Return the exchanges of other ranks with rank 0, by step."""
        for one in self._threads:
            one.join()
        steps = []
        for of_step in zip(*self._traffic):
            total = Traffic()
            for one in of_step:
                total.add(one)
            steps.append(total)
        return steps


def serve(server: Server, peer: int, like: Any, steps: int, traffic: list[Traffic]) -> None:
    """Take gradients of one rank and hand it parameters, in so many steps; note what it took.

    Args:
        server: Whose parameters they are.
        peer: The rank.
        like: A tensor as the gradients are.
        steps: Number of steps of the rank.
        traffic: Gets one for each.
    """
    communicator = server.communicator.renew()
    try:
        for _ in range(steps):
            gradients = torch.empty_like(like)
            communicator.receive(gradients, peer)
            communicator.send(server.take(peer, gradients, communicator), peer)
            taken = communicator.take_traffic()
            # the thread waits while rank 0 computes
            taken.exchanges, taken.waits = [], []
            traffic.append(taken)
    except RuntimeError as error:
        server.fail(str(error))
