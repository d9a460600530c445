"""A user's `torch.nn.Module` without training, as its file defines it; see `catalog.modules`."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import torch
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from ...catalog import modules
from ...sources import import_file
from ..base import Call, NativeTensor, Right
from ..inferring import Clock
from . import moves, products
from .networks import Compile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .differentiating import DifferentiatedModule


class InferringModule:
    """See `base.InferringModule`."""

    def __init__(
        self, source: Path, seed: int, like: NativeTensor, compiler: Compile | None = None
    ) -> None:
        file = import_file(source, modules.NEEDED)
        torch.manual_seed(seed)
        self._name = source.name
        self._file = file
        self._like = like
        self._first = build(self._name, file.network).eval()
        self._network = self._make()
        self._compiler = compiler
        self._forward = compiler(self._network) if compiler else self._network
        self.parameters = sum(one.numel() for one in self._network.parameters())

    def inference(self, inputs: Mapping[str, NativeTensor]) -> Call:
        """Run in evaluation mode, without gradients."""
        forward = self._forward

        def run(*tensors: NativeTensor) -> tuple[NativeTensor, ...]:
            with torch.no_grad():
                return moves.outputs(forward(*tensors))

        return run, tuple(inputs.values())

    def right(self, inputs: Mapping[str, NDArray[Any]], dtype: str, seed: int) -> Right:
        """Compute the reference in float64, and bounds by perturbing the module's operations."""
        tensors = tuple(torch.from_numpy(one).to(self._like.device) for one in inputs.values())
        label = f"capsule-module-1\n{self._name}\n{seed}"
        return moves.right(self._make(), tensors, dtype, label)

    def exact(self, inputs: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], ...]:
        """Compute the reference by the module in float64."""
        tensors = (torch.from_numpy(one).to(self._like.device) for one in inputs.values())
        wide = self._make().double()
        with torch.no_grad():
            results = moves.outputs(wide(*map(moves.widen, tensors)))
        return tuple(one.double().cpu().numpy() for one in results)

    def differentiation(self) -> DifferentiatedModule:
        """Return the differentiation, with a copy of the weights."""
        from . import differentiating

        return differentiating.DifferentiatedModule(
            self._name, self._file, self._make(), self._like, self._compiler
        )

    def layers(self, inputs: Mapping[str, NativeTensor], clock: Clock) -> list[float]:
        """Return each operation that torch's dispatcher sees and that computes something."""
        timed = Timed(clock)
        with torch.no_grad(), timed:
            self._network(*inputs.values())
        return timed.seconds

    def fewest_flops(self, inputs: Mapping[str, NativeTensor]) -> float:
        """Return the FLOPs of the uncompiled module by torch's own formulas."""
        return products.count(self._make(), inputs)

    def _make(self) -> torch.nn.Module:
        """Return the module as it was made: what it keeps of its calls is not there."""
        return place(deepcopy(self._first), self._like)


class Timed(TorchDispatchMode):  # type: ignore[misc]
    """Times each operation with copies of what it reads, and lets it run once.

    Attributes:
        seconds: Seconds of each operation that is timed.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.seconds: list[float] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not moves.is_view(function):
            operands = tree_map_only(torch.Tensor, torch.clone, args)
            self.seconds.append(self._clock(partial(function, **kwargs), operands))
        return function(*args, **kwargs)


def make(name: str, function: Callable[[], Any], like: NativeTensor) -> torch.nn.Module:
    """`build`, and `place`."""
    return place(build(name, function), like)


def build(name: str, function: Callable[[], Any]) -> torch.nn.Module:
    """Return the module that a file's `network` makes.

    Args:
        name: Name of the file.
        function: The file's.

    Raises:
        ValueError: It makes something else, or nothing.
    """
    try:
        network = function()
    except (LookupError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"network() of {name} failed to make a module: {error}") from error
    if not isinstance(network, torch.nn.Module):
        raise ValueError(f"network() of {name} returned {type(network).__name__}, not a Module")
    if any(map(is_lazy, (*network.parameters(), *network.buffers()))):
        raise ValueError(
            f"network() of {name} has lazy parameters, whose shapes are unknown: give each layer"
            " its input size"
        )
    return network


def place(network: torch.nn.Module, like: NativeTensor) -> torch.nn.Module:
    """Return a module where a tensor is and of its dtype, in place."""
    return network.to(device=like.device, dtype=like.dtype)
