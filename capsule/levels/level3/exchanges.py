"""What each scheme of `catalog.schemes` exchanges in a step.

With p the trained parameters, g their gradients and w a rank's share of the samples of a batch:

    allreduce           g := sum of w g over all ranks
    parameter-server    rank 0 gets that g and moves p; the others get its p
    model-averaging     p := sum of w p over all ranks, after each step
    local-sgd           likewise after every `period` steps
    neighbour-averaging p := mean of p over a rank and its neighbours in a ring, after each step
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..communicators import Communicator
from ..job import Scheme

Tensors = Mapping[str, Any]
"""Trained parameters by name, whose `grad` are their gradients."""


class Exchange:
    """What is common to all: nothing is exchanged.

    Attributes:
        communicator: What counts.
        weight: The rank's share of the samples of a batch.
        numbers: Of the scheme.
    """

    def __init__(
        self, communicator: Communicator, weight: float, numbers: Mapping[str, float]
    ) -> None:
        self.communicator = communicator
        self.weight = weight
        self.numbers = numbers

    def before_step(self, parameters: Tensors) -> None:
        """With the gradients of the rank's own samples there."""

    def after_step(self, parameters: Tensors, step: int) -> None:
        """With the step taken; the number of steps that are."""


class AllReduce(Exchange):
    """`allreduce`."""

    def before_step(self, parameters: Tensors) -> None:
        """One operation for all gradients."""
        gradients = [one.grad for one in parameters.values()]
        flat = flatten(gradients) * self.weight
        self.communicator.all_reduce(flat)
        fill(gradients, flat)


class ParameterServer(Exchange):
    """`parameter-server`."""

    def before_step(self, parameters: Tensors) -> None:
        """Bring gradients to rank 0; without any, other ranks move nothing."""
        gradients = [one.grad for one in parameters.values()]
        flat = flatten(gradients) * self.weight
        self.communicator.reduce(flat)
        if self.communicator.rank == 0:
            fill(gradients, flat)
        else:
            for one in parameters.values():
                one.grad = None

    def after_step(self, parameters: Tensors, step: int) -> None:
        """Hand out parameters."""
        del step
        flat = flatten(parameters.values())
        self.communicator.broadcast(flat)
        fill(parameters.values(), flat)


class LocalSgd(Exchange):
    """`local-sgd`, and `model-averaging`, whose period is one step."""

    def after_step(self, parameters: Tensors, step: int) -> None:
        """Average where a period ends."""
        if step % self.numbers.get("period", 1) == 0:
            flat = flatten(parameters.values()) * self.weight
            self.communicator.all_reduce(flat)
            fill(parameters.values(), flat)


class NeighbourAveraging(Exchange):
    """`neighbour-averaging`."""

    def after_step(self, parameters: Tensors, step: int) -> None:
        """Swap with both neighbours, who are one where there are two ranks."""
        del step
        rank, ranks = self.communicator.rank, self.communicator.ranks
        peers = sorted({(rank - 1) % ranks, (rank + 1) % ranks} - {rank})
        own = flatten(parameters.values())
        everybody = [own, *self.communicator.swap(own, peers)]
        fill(parameters.values(), sum(everybody) / len(everybody))


EXCHANGES: Mapping[str, type[Exchange]] = {
    "allreduce": AllReduce,
    "parameter-server": ParameterServer,
    "model-averaging": LocalSgd,
    "local-sgd": LocalSgd,
    "neighbour-averaging": NeighbourAveraging,
}


def choose(scheme: Scheme, communicator: Communicator, weight: float) -> Exchange:
    """That of a scheme.

    Args:
        scheme: Of the recipe.
        communicator: What counts.
        weight: The rank's share of the samples of a batch.
    """
    return EXCHANGES[scheme.name](communicator, weight, scheme.numbers)


def flatten(tensors: Any) -> Any:
    """The elements of some tensors one after the other, as a new tensor of one axis."""
    return torch.cat([one.detach().reshape(-1) for one in tensors])


def fill(tensors: Any, flat: Any) -> None:
    """Put what `flatten` made into tensors."""
    first = 0
    with torch.no_grad():
        for one in tensors:
            one.copy_(flat[first : first + one.numel()].view_as(one))
            first += one.numel()
