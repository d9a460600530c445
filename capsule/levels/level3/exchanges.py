"""Exchanges of each scheme of `catalog.schemes` in a step; larger ones have their own files.

With p the trained parameters, g their gradients and w a rank's share of the samples of a batch:

    allreduce           g := sum of w g over all ranks
    parameter-server    rank 0 gets that g and moves p; the others get its p
    model-averaging     p := sum of w p over all ranks, after each step
    local-sgd           likewise after every `period` steps
    neighbour-averaging p := mean of p over a rank and its neighbours in a ring, after each step
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable

import torch

from ..catalog.splitting import Work
from ..communicators import Communicator, Traffic
from ..frameworks.base import Distributable
from ..graphs.graph import Graph


@dataclass(frozen=True)
class Member:
    """One rank of a training, as its scheme sees it.

    Attributes:
        communicator: What counts.
        weight: The rank's share of the samples of a batch.
        parts: Micro-batches of its step, whose gradients add up.
        numbers: Numbers of the scheme.
        trainer: Trainer of the rank.
        graph: What is trained, for a micro-batch.
        work: What all ranks do.
        leaves: Trained parameters by name, whose `grad` are their gradients.
        start: Makes an optimizer of the training over other tensors.
        rate: Learning rate of a step, from 0.
    """

    communicator: Communicator
    weight: float
    parts: int
    numbers: Mapping[str, float]
    trainer: Distributable
    graph: Graph
    work: Work
    leaves: Mapping[str, Any]
    start: Callable[[Sequence[Any]], Any]
    rate: Callable[[int], float]

    def weigh(self) -> Any:
        """Return the weighted gradients as a new tensor of one axis."""
        return flatten(self.gradients()) * self.weight

    def gradients(self) -> list[Any]:
        """Return the gradients of the rank's own samples, before any exchange."""
        return [one.grad for one in self.leaves.values()]

    def drop_gradients(self) -> None:
        """Leave the rank's optimizer nothing to move parameters by."""
        for one in self.leaves.values():
            one.grad = None


class Exchange:
    """Base of all exchanges; exchanges nothing."""

    def __init__(self, member: Member) -> None:
        """Create an exchange without steps.

        Args:
            member: Who exchanges.
        """
        self.member = member
        self.communicator = member.communicator
        # of the loss of its own samples in that of all
        self.share_of_losses = member.weight

    @staticmethod
    def share(graph: Graph, work: Work, rank: int, ranks: int) -> Graph:
        """Return a rank's part of a network."""
        del work, rank, ranks
        return graph

    def open(self, steps: int) -> None:
        """Make ready for so many steps."""

    def before_step(self) -> None:
        """Exchange before a step, given the gradients of the rank's own samples."""

    def after_step(self, step: int) -> None:
        """Exchange after a step; return the number of finished steps."""

    def state(self) -> Mapping[str, Any]:
        """Return tensors that later steps depend on beside the rank's trainer, by name, to be put
        back.
        """
        return {}

    def read(self) -> Any:
        """Return the trained parameters, as a new tensor of one axis."""
        return flatten(self.member.leaves.values())

    @contextmanager
    def gather(self) -> Iterator[None]:
        """Have whole parameters on every rank, for a time in which no step is taken."""
        yield

    def list_tensors(self) -> Sequence[Any]:
        """Return tensors that are there between steps beside the rank's trainer's state."""
        gradients = [one for one in self.member.gradients() if one is not None]
        return [*gradients, *self.state().values()]

    def close(self) -> Sequence[Traffic]:
        """End what `open` began, and tell what no step of the rank itself has exchanged."""
        return ()


class AllReduce(Exchange):
    """`allreduce`."""

    def before_step(self) -> None:
        """Exchange all gradients in one operation."""
        flat = self.member.weigh()
        self.communicator.all_reduce(flat)
        fill(self.member.gradients(), flat)


class ParameterServer(Exchange):
    """`parameter-server`."""

    def before_step(self) -> None:
        """Bring gradients to rank 0; without any, other ranks move nothing."""
        flat = self.member.weigh()
        self.communicator.reduce(flat)
        if self.communicator.rank == 0:
            fill(self.member.gradients(), flat)
        else:
            self.member.drop_gradients()

    def after_step(self, step: int) -> None:
        """Hand out parameters."""
        del step
        leaves = self.member.leaves.values()
        flat = flatten(leaves)
        self.communicator.broadcast(flat)
        fill(leaves, flat)


class LocalSgd(Exchange):
    """`local-sgd`, and `model-averaging`, whose period is one step."""

    def after_step(self, step: int) -> None:
        """Average where a period ends."""
        if step % self.member.numbers.get("period", 1) == 0:
            leaves = self.member.leaves.values()
            flat = flatten(leaves) * self.member.weight
            self.communicator.all_reduce(flat)
            fill(leaves, flat)


class NeighbourAveraging(Exchange):
    """`neighbour-averaging`."""

    def after_step(self, step: int) -> None:
        """Swap with both neighbours, who are one where there are two ranks."""
        del step
        rank, ranks = self.communicator.rank, self.communicator.ranks
        peers = sorted({(rank - 1) % ranks, (rank + 1) % ranks} - {rank})
        leaves = self.member.leaves.values()
        own = flatten(leaves)
        everybody = [own, *self.communicator.swap(own, peers)]
        fill(leaves, sum(everybody) / len(everybody))


def flatten(tensors: Any) -> Any:
    """Return the elements of some tensors one after the other, as a new tensor of one axis."""
    return torch.cat([one.detach().reshape(-1) for one in tensors])


def fill(tensors: Any, flat: Any) -> None:
    """Put what `flatten` made into tensors."""
    first = 0
    with torch.no_grad():
        for one in tensors:
            one.copy_(flat[first : first + one.numel()].view_as(one))
            first += one.numel()
