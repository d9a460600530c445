"""All-reduce of gradients in buckets, which goes on while `backward` does.

Parameters are taken in the reverse of their order, about as `backward` comes to them, and their
gradients one after the other. A bucket is so many bytes of that, wherever parameters begin and end;
the last one is smaller. It is sent as soon as it is full and those before it are sent, so that all
ranks send in one order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from ..catalog.schemes import count_in_bucket
from ..communicators import UnderWay
from .exchanges import Exchange, Member, flatten


class Bucketed(Exchange):
    """`bucketed`."""

    def __init__(self, member: Member) -> None:
        """Have each parameter tell when its gradient is there; see `Exchange`."""
        super().__init__(member)
        self._leaves = list(member.leaves.values())[::-1]
        self._flat = torch.zeros_like(flatten(self._leaves))
        self._size = count_in_bucket(member.numbers["bucket_bytes"], self._flat.element_size())
        self._buckets = self._flat.split(self._size)
        self._under_way: list[UnderWay] = []
        self._arrived: dict[Any, Any] = {}
        self._lacking = self._count()
        rows = self._flat.split([leaf.numel() for leaf in self._leaves])
        self._views = [row.view_as(leaf) for row, leaf in zip(rows, self._leaves)]
        first = 0
        for leaf, view in zip(self._leaves, self._views):
            leaf.register_post_accumulate_grad_hook(
                partial(self._take, view, self._cut(first, leaf))
            )
            first += leaf.numel()

    def list_tensors(self) -> Sequence[Any]:
        """List the tensors, buckets included."""
        return [*super().list_tensors(), self._flat]

    def before_step(self) -> None:
        """Wait for all buckets, and make ready for the next step."""
        self.communicator.finish(self._under_way)
        for leaf, view in zip(self._leaves, self._views):
            # what it was is in the view, and the next `backward` makes another one
            leaf.grad = view
        self._under_way, self._lacking = [], self._count()
        self._arrived.clear()

    def _count(self) -> list[int]:
        """Return elements that each bucket waits for: those of each micro-batch."""
        return [one.numel() * self.member.parts for one in self._buckets]

    def _cut(self, first: int, leaf: Any) -> list[tuple[int, int]]:
        """Return the buckets in which a parameter lies, and how many of its elements each has."""
        end = first + leaf.numel()
        return [
            (number, min(end, (number + 1) * self._size) - max(first, number * self._size))
            for number in range(first // self._size, -(-end // self._size))
        ]

    def _take(self, view: Any, cut: Sequence[tuple[int, int]], leaf: Any) -> None:
        """Note that a gradient has arrived, and send the buckets that are full by it."""
        self._arrived[view] = leaf
        for number, inside in cut:
            self._lacking[number] -= inside
        while len(self._under_way) < len(self._buckets) and not self._lacking[len(self._under_way)]:
            self._fill()
            bucket = self._buckets[len(self._under_way)]
            self._under_way.append(self.communicator.begin_all_reduce(bucket))

    def _fill(self) -> None:
        """Put the gradients that have arrived into their buckets.

        One after the other: between the nodes of `backward`, which need the caches for other
        things, each of them takes several times as long.
        """
        for view, leaf in self._arrived.items():
            torch.mul(leaf.grad, self.member.weight, out=view)
        self._arrived.clear()
