"""Parameters, gradients and what an optimizer keeps in parts, one on each rank.

All trained parameters are one array, of which torch's `fully_shard` gives each rank a part: of n
numbers on N ranks n / N rounded up, so that the last parts may be smaller, or empty; what is
exchanged is filled up. A step gathers the parameters before it runs the network, adds up gradients
of all ranks, each by its part, when it has them, and lets go of both but for the rank's part
("ZeRO", Rajbhandari et al., SC 2020; the flat array is that of Zhao et al., "PyTorch FSDP", VLDB
2023). An optimizer that moves numbers one by one moves a part as it would the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from ..communicators import Communicator
from .exchanges import Exchange, Member, flatten


class Sharded(Exchange):
    """`sharded`, and a `base.Holder` for the rank's trainer.

    Attributes:
        kept: The rank's part, a leaf whose memory is torch's own part.
    """

    def __init__(self, member: Member) -> None:
        """Take the parameters over; see `Exchange`."""
        # whoever trains alone, or by another scheme, need not wait for their import
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard

        super().__init__(replace(member, leaves={}))
        self._shapes = {name: one.shape for name, one in member.leaves.items()}
        flat = flatten(member.leaves.values())
        mesh = DeviceMesh(flat.device.type, list(range(self.communicator.ranks)))
        self._module: Any = fully_shard(_Flat(flat), mesh=mesh, reshard_after_forward=False)
        # torch's caches keep the mesh for good, and by it the connections of a rank that leaves
        mesh._pg_registry.clear()
        self._module.set_custom_all_gather(_Gathering(self.communicator))
        self._module.set_custom_reduce_scatter(_Adding(self.communicator, member.weight))
        # weights are applied before the sum, which is nothing but that
        self._module.set_gradient_divide_factor(1.0)
        self._module.set_force_sum_reduction_for_comms(True)
        part = self._module.flat.to_local().detach()
        self.kept: Mapping[str, Any] = {"part": part.requires_grad_()}
        self._lent, self._is_gathered = 0, False
        member.trainer.keep_in(self)

    def lend(self, function: Callable[[Mapping[str, Any]], Any]) -> Any:
        """Gather for the first micro-batch of a step, and add up gradients after the last one."""
        if self._is_gathered:
            return function(self._split(self._module.flat))
        self._lent += 1
        is_last = self._lent % self.member.parts == 0
        self._module.set_requires_gradient_sync(is_last)
        self._module.set_reshard_after_backward(is_last)
        return self._module(lambda flat: function(self._split(flat)))

    def parameters(self) -> Mapping[str, Any]:
        """Whole ones, for which all ranks have to ask unless they `gather`."""
        return self._split(self.read())

    def before_step(self) -> None:
        """Hand the part's gradient to its optimizer, and keep it nowhere else."""
        flat = self._module.flat
        self.kept["part"].grad = flat.grad.to_local()
        flat.grad = None

    def read(self) -> Any:
        """Return the parameters gathered for it."""
        with self.gather():
            return self._module.flat.detach().clone()

    @contextmanager
    def gather(self) -> Iterator[None]:
        """Gather the parameters of all ranks meanwhile; nested, do nothing."""
        if self._is_gathered:
            yield
            return
        self._module.unshard()
        self._is_gathered = True
        try:
            yield
        finally:
            self._is_gathered = False
            self._module.reshard()

    def list_tensors(self) -> Sequence[Any]:
        """Return the part's gradient."""
        return [one.grad for one in self.kept.values() if one.grad is not None]

    def _split(self, flat: Any) -> Mapping[str, Any]:
        parts = flat.split([shape.numel() for shape in self._shapes.values()])
        return {name: one.view(self._shapes[name]) for name, one in zip(self._shapes, parts)}


class _Flat(torch.nn.Module):  # type: ignore[misc]
    """All parameters, for whoever wants to reckon with them."""

    def __init__(self, flat: Any) -> None:
        super().__init__()
        self.flat = torch.nn.Parameter(flat)

    def forward(self, function: Callable[[Any], Any]) -> Any:
        return function(self.flat)


class _Allocating:
    """Allocation interface that torch requires of both operations."""

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator

    def allocate(self, size: Sequence[int], *, dtype: Any, device: Any) -> Any:
        return torch.empty(*size, dtype=dtype, device=device)


class _Gathering(_Allocating):
    """A gathering of parameters that is counted."""

    def __call__(self, output_tensor: Any, input_tensor: Any, *_: Any, **__: Any) -> None:
        self._communicator.join(output_tensor, input_tensor)


class _Adding(_Allocating):
    """A sum of weighed gradients that is counted."""

    def __init__(self, communicator: Communicator, weight: float) -> None:
        super().__init__(communicator)
        self._weight = weight

    def __call__(self, output_tensor: Any, input_tensor: Any, *_: Any, **__: Any) -> None:
        self._communicator.scatter(output_tensor, input_tensor.mul_(self._weight))
