"""Stages of a network on the ranks, through which micro-batches go: `torch.distributed.pipelining`.

Each rank has the parameters of its stage, with their gradients and what the optimizer keeps of
them. Torch's `ScheduleGPipe` sends what a stage makes of a micro-batch on to the next one, and then
the gradients of it back; losses are those of micro-batches over their number, so gradients add up
to those of the batch. A parameter that the first stage and the last one read is on both, which add
up its gradients. For an evaluation every rank has all parameters, and runs the whole network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any, Callable

import torch

from ..catalog import stages as catalog
from ..catalog.splitting import Work
from ..frameworks.torch.networks import trace
from ..graphs import stages
from ..graphs.graph import Graph
from .exchanges import Exchange, Member, fill, flatten


class Pipelined(Exchange):
    """`pipelined`, and a `base.Holder` for the rank's trainer.

    Attributes:
        kept: Parameters of the rank's stage by name.
    """

    def __init__(self, member: Member) -> None:
        """Take the stage's parameters over; see `Exchange`."""
        communicator = member.communicator
        parts = _split(member.graph, member.work, communicator.ranks)
        own = parts[communicator.rank]
        self._shapes = {name: one.shape for name, one in member.leaves.items()}
        # of what two stages have the first one tells
        earlier = {name for part in parts[: communicator.rank] for name in part.trainable}
        self._told = frozenset(own.trainable) - earlier
        self.kept: Mapping[str, Any] = {name: member.leaves[name] for name in own.trainable}
        self._tied = [name for name in stages.list_ties(parts) if name in self.kept]
        super().__init__(replace(member, leaves=self.kept))
        is_last = communicator.rank == communicator.ranks - 1
        self.share_of_losses = float(is_last)
        self._gathered: Mapping[str, Any] | None = None
        self._inputs = [name for name in own.inputs if name in member.graph.inputs]
        self._first = next(iter(member.graph.inputs))
        self._stage, self._schedule = _make_schedule(self, own)
        member.trainer.keep_in(self)
        member.trainer.differentiate_by(self.differentiate)

    @staticmethod
    def share(graph: Graph, work: Work, rank: int, ranks: int) -> Graph:
        """Return a stage."""
        return _split(graph, work, ranks)[rank]

    def differentiate(self, inputs: Mapping[str, Any]) -> Any:
        """Run all micro-batches of a step forward and backward; the loss, where the stage has it.

        Args:
            inputs: Inputs of the whole network for the batch.
        """
        losses: list[Any] = []
        began, computed = perf_counter(), self._stage.computing
        self._schedule.step(
            # of which it reads nothing, and makes parts for the loss
            target=inputs[self._first],
            losses=losses,
            return_outputs=False,
            **{_word(name): inputs[name] for name in self._inputs},
        )
        computing = self._stage.computing - computed
        # all of it by the clock of the host, whose ranks alone have stages
        self.communicator.count_wait(began + computing, perf_counter())
        if not losses:
            return torch.zeros(())
        return torch.stack([one.detach() for one in losses]).sum()

    def lose(self, output: Any, target: Any) -> Any:
        """Return the loss of a micro-batch: its part of the batch's loss."""
        del target
        return output / self.member.parts if self.member.parts > 1 else output

    def before_step(self) -> None:
        """Add up gradients of what the first stage and the last one both have."""
        rank, ranks = self.communicator.rank, self.communicator.ranks
        if ranks == 1 or not self._tied:
            return
        gradients = [self.kept[name].grad for name in self._tied]
        flat = flatten(gradients)
        others = torch.empty_like(flat)
        peer = ranks - 1 - rank
        self.communicator.trade({peer: flat}, {peer: others})
        fill(gradients, flat + others)

    def lend(self, function: Callable[[Mapping[str, Any]], Any]) -> Any:
        """Apply a function to gathered parameters: no step runs the whole network."""
        assert self._gathered is not None, "gather the parameters before running the whole network"
        return function(self._gathered)

    def parameters(self) -> Mapping[str, Any]:
        """Return all of them, for which all ranks have to ask unless they `gather`."""
        return self._name_parts(self.read()) if self._gathered is None else self._gathered

    def read(self) -> Any:
        """Return each rank tells its own in their places."""
        like = next(iter(self.kept.values()))
        flat = flatten(
            self.kept[name] if name in self._told else like.new_zeros(shape)
            for name, shape in self._shapes.items()
        )
        self.communicator.all_reduce(flat)
        return flat

    @contextmanager
    def gather(self) -> Iterator[None]:
        """Gather the parameters of all ranks meanwhile."""
        self._gathered = self._name_parts(self.read())
        try:
            yield
        finally:
            self._gathered = None

    def _name_parts(self, flat: Any) -> Mapping[str, Any]:
        parts = flat.split([shape.numel() for shape in self._shapes.values()])
        return {name: one.view(self._shapes[name]) for name, one in zip(self._shapes, parts)}


def _split(graph: Graph, work: Work, ranks: int) -> tuple[Graph, ...]:
    line = catalog.find_line(work.network, work.sizes)
    if line is None:
        raise ValueError(
            f"{work.network} cannot be cut into {ranks} stages: the catalogue lists no cuts of"
            f" {work.network}"
        )
    return stages.split(graph, catalog.choose(line, ranks))


def _make_schedule(exchange: Pipelined, own: Graph) -> tuple[Any, Any]:
    """Return the rank's stage, and torch's schedule of it."""
    # whoever trains by another scheme need not wait for its import
    from torch.distributed.pipelining import ScheduleGPipe

    from .counted import CountedStage

    member, rank = exchange.member, exchange.communicator.rank
    function, taken = trace(own, own.nodes, own.outputs)
    end = own.nodes[-1]
    like = next(iter(exchange.kept.values()))
    handed = [one.shape for name, one in own.inputs.items() if name not in member.graph.inputs]
    stage = CountedStage(
        exchange.communicator,
        _Stage(function, taken, exchange.kept, next(iter(own.inputs))),
        rank,
        exchange.communicator.ranks,
        torch.device("cpu"),
        input_args=tuple(like.new_empty(shape).requires_grad_() for shape in handed),
        output_args=(like.new_empty(end.shape).requires_grad_(),),
    )
    how = {"loss_fn": exchange.lose, "scale_grads": False}
    return stage, ScheduleGPipe(stage, member.parts, **how)


def _word(name: str) -> str:
    """Return an input's name among the words that torch's schedule takes itself, as `target`."""
    return f"input:{name}"


class _Stage(torch.nn.Module):  # type: ignore[misc]
    """A stage's function of what is handed to it, and of the inputs that it reads."""

    def __init__(
        self,
        function: Callable[..., Any],
        taken: Sequence[str],
        parameters: Mapping[str, Any],
        handed: str,
    ) -> None:
        super().__init__()
        self._function, self._taken, self._handed = function, taken, handed
        # not as a module's own: whose optimizer moves them is the trainer
        self._values = [parameters]

    def forward(self, *handed: Any, **inputs: Any) -> Any:
        values = dict(self._values[0])
        if handed:
            (values[self._handed],) = handed
        operands = (values[name] if name in values else inputs[_word(name)] for name in self._taken)
        (end,) = self._function(*operands)
        return end
