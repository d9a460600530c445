"""Slabs of all samples on the ranks, along the first spatial axis of a network's convolutions.

Before each convolution ranks that are next to each other hand over the rows that lie at their
border, and gradients of these on the way back, where they are added to those of the ranks that the
rows are of. Where the network takes all rows, or has too few, they are gathered; every rank
computes the rest alike, so that a gradient of the gathered rows is the same on all ranks, and each
takes that of its own. Gradients of what convolutions read are added up over slabs; of all other
parameters every rank has the whole gradient, and that of rank 0 is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

import torch

from ..catalog.slabs import Cuts, Halo
from ..catalog.splitting import Work
from ..communicators import Communicator
from ..frameworks.base import Call
from ..graphs import slabs
from ..graphs.graph import Graph
from .exchanges import AllReduce, Member, fill, flatten

_ROWS = 2


class Spatial(AllReduce):
    """`spatial`."""

    def __init__(self, member: Member) -> None:
        """Lay out what the rank's trainer runs; see `Exchange`."""
        super().__init__(member)
        rank, ranks = self.communicator.rank, self.communicator.ranks
        self._of_slabs = slabs.share(member.graph, ranks).parameters
        operations: Mapping[str, Callable[..., Call]] = {
            "slab": _take_slab,
            "halo": self._add_halo,
            "whole": self._gather_whole,
        }
        self.share_of_losses = 1 / ranks
        member.trainer.lay_out(lambda graph: slabs.split(graph, rank, ranks), operations)

    @staticmethod
    def share(graph: Graph, work: Work, rank: int, ranks: int) -> Graph:
        """Return a slab of each value up to where the network takes all rows."""
        del work
        return slabs.split(graph, rank, ranks)

    def before_step(self) -> None:
        """Exchange all gradients in one operation."""
        flat = flatten(
            leaf.grad if self.is_counted(name) else torch.zeros_like(leaf)
            for name, leaf in self.member.leaves.items()
        )
        self.communicator.all_reduce(flat)
        fill(self.member.gradients(), flat)

    def is_counted(self, name: str) -> bool:
        """Return whether the rank's gradient by a parameter is a part of the sum over ranks."""
        return name in self._of_slabs or self.communicator.rank == 0

    def _add_halo(self, sizes: Mapping[str, Halo], x: Any) -> Call:
        around = sizes["halo"]

        def add_halo(x: Any) -> Any:
            return _Halo.apply(x, around, self.communicator)

        return _line(add_halo), (x,)

    def _gather_whole(self, sizes: Mapping[str, Cuts], x: Any) -> Call:
        cuts = sizes["cuts"]

        def gather_whole(x: Any) -> Any:
            return _Whole.apply(x, cuts, self.communicator)

        return _line(gather_whole), (x,)


def _line(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a call that stands in a trace as it is, which else would look into it."""
    return lambda x: x.tracer.create_proxy("call_function", function, (x,), {})


def _take_slab(sizes: Mapping[str, int], x: Any) -> Call:
    return torch.narrow, (x, _ROWS, sizes["begin"], sizes["rows"])


class _Halo(torch.autograd.Function):  # type: ignore[misc]
    """A slab with the rows around it; backward, their gradients where the rows are."""

    @staticmethod
    def forward(ctx: Any, x: Any, around: Halo, communicator: Communicator) -> Any:
        ctx.around, ctx.communicator, ctx.rows = around, communicator, x.shape[_ROWS]
        before, after = trade(
            communicator,
            (_first(x, around.to_before), _last(x, around.to_after)),
            (around.from_before, around.from_after),
        )
        zeros = (_make(x, rows).zero_() for rows in (around.zeros_before, around.zeros_after))
        parts = (next(zeros), before, _first(x, around.own), after, next(zeros))
        return torch.cat(parts, _ROWS)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, None, None]:
        around = ctx.around
        sizes = around.zeros_before, around.from_before, around.own, around.from_after
        _, before, own, after, _ = gradient.split((*sizes, around.zeros_after), _ROWS)
        of_first, of_last = trade(
            ctx.communicator, (before, after), (around.to_before, around.to_after)
        )
        whole = _make(gradient, ctx.rows).zero_()
        _first(whole, around.own).add_(own)
        _first(whole, around.to_before).add_(of_first)
        _last(whole, around.to_after).add_(of_last)
        return whole, None, None


class _Whole(torch.autograd.Function):  # type: ignore[misc]
    """The slabs of all ranks one after the other; backward, the gradient of the rank's own."""

    @staticmethod
    def forward(ctx: Any, x: Any, cuts: Cuts, communicator: Communicator) -> Any:
        ctx.begin, ctx.rows = cuts[communicator.rank], x.shape[_ROWS]
        sizes = [end - begin for begin, end in zip(cuts, cuts[1:])]
        part = _make(x, max(sizes)).zero_()
        _first(part, ctx.rows).copy_(x)
        whole = x.new_empty((len(sizes), *part.shape))
        communicator.join(whole.view(-1), part.view(-1))
        return torch.cat([_first(one, rows) for one, rows in zip(whole, sizes)], _ROWS)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, None, None]:
        return gradient.narrow(_ROWS, ctx.begin, ctx.rows), None, None


def trade(
    communicator: Communicator, rows: tuple[Any, Any], counts: tuple[int, int]
) -> tuple[Any, Any]:
    """Hand rows to the rank before and to the one after, and return theirs.

    Args:
        communicator: Communicator of all ranks.
        rows: For either; none of them is sent.
        counts: How many come from either.
    """
    peers = communicator.rank - 1, communicator.rank + 1
    obtained = tuple(_make(one, count) for one, count in zip(rows, counts))
    communicator.trade(
        {peer: one.contiguous() for peer, one in zip(peers, rows) if one.shape[_ROWS]},
        {peer: one for peer, one in zip(peers, obtained) if one.shape[_ROWS]},
    )
    return obtained[0], obtained[1]


def _make(like: Any, rows: int) -> Any:
    """Room for so many rows."""
    return like.new_empty((*like.shape[:_ROWS], rows, *like.shape[_ROWS + 1 :]))


def _first(x: Any, rows: int) -> Any:
    return x.narrow(_ROWS, 0, rows)


def _last(x: Any, rows: int) -> Any:
    return x.narrow(_ROWS, x.shape[_ROWS] - rows, rows)
