"""The loss of a user's `torch.nn.Module` and its gradients, at parameters that stay.

What is judged is run in the mode of training, by copies, so that nothing that a module counts up
goes from one run into another. Held to its own bound is each operation that torch's dispatcher sees
of forward and backward pass, for the very numbers that it reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from ..base import Call, NativeTensor, Right
from ..inferring import Clock
from . import drawing, moves
from .inference import Timed
from .losses import Loss
from .networks import Compile

if TYPE_CHECKING:
    from numpy.typing import NDArray

Values = Mapping[str, NativeTensor]
Arrays = Mapping[str, "NDArray[Any]"]

_PAIRS = 8
"""Number of perturbed calls that show how far results move: some results are single numbers."""


class DifferentiatedModule:
    """See `inferring.DifferentiatedModule`."""

    def __init__(
        self,
        name: str,
        file: ModuleType,
        network: torch.nn.Module,
        like: NativeTensor,
        compiler: Compile | None,
    ) -> None:
        self._name = name
        self._loss = Loss(name, file)
        self._network = deepcopy(network).train()
        if not _leaves(self._network):
            raise ValueError(f"network() of {name} has no parameters to train")
        self._like = like
        self._compiler = compiler

    def training(self, inputs: Values) -> Call:
        """Run in training mode, with numbers of torch's generator."""
        network = deepcopy(self._network)
        forward = self._compiler(network) if self._compiler else network
        names = tuple(inputs)

        def run(*tensors: NativeTensor) -> tuple[NativeTensor, ...]:
            return self._differentiate(network, forward, dict(zip(names, tensors)))

        return run, tuple(inputs.values())

    def rehearse(self, inputs: Values, seed: int) -> Call:
        """Run as in the timed calls, but for random numbers, which compiled code cannot choose."""
        if self._compiler:
            return self.training(inputs)
        names = tuple(inputs)

        def run(*tensors: NativeTensor) -> tuple[NativeTensor, ...]:
            network = deepcopy(self._network)
            with drawing.Drawing(self._label(seed)):
                return self._differentiate(network, network, dict(zip(names, tensors)))

        return run, tuple(inputs.values())

    def right(self, inputs: Arrays, dtype: str, seed: int) -> Right:
        """Compute the reference in float64, and bounds by perturbing the module's operations."""
        operands = self._place(inputs)

        def run(wide: torch.nn.Module) -> tuple[NativeTensor, ...]:
            return self._differentiate(wide, wide, operands)

        draws = None if self._compiler else self._label(seed)
        return moves.judge(self._network, run, dtype, self._label(seed), draws)

    def hold(self, inputs: Arrays, dtype: str, seed: int) -> tuple[float, float]:
        """Operation by operation."""
        network = deepcopy(self._network)
        operands = {
            name: one.to(self._like.dtype) if one.is_floating_point() else one
            for name, one in self._place(inputs).items()
        }
        held = _Held(dtype, self._label(seed))
        with held:
            _, *gradients = self._differentiate(network, network, operands)
        return held.worst(), held.share(gradients)

    def layers(self, inputs: Values, clock: Clock) -> list[float]:
        """Return each operation that torch's dispatcher sees of the backward pass and that
        computes.
        """
        network = deepcopy(self._network)
        loss = self._loss.lose(network, inputs)
        timed = Timed(clock)
        with timed:
            torch.autograd.grad(loss, _leaves(network), allow_unused=True)
        return timed.seconds

    def lose(
        self, inputs: Arrays, seed: int, parameters: list[NDArray[Any]]
    ) -> tuple[float, float]:
        """Compute the loss in float64."""
        wide = deepcopy(self._network).double()
        operands = self._place(inputs)
        with torch.no_grad(), drawing.Drawing(self._label(seed)):
            for leaf, array in zip(_leaves(wide), parameters):
                leaf.copy_(torch.from_numpy(array))
            yielded, due = self._loss.call(wide, operands)
            loss = float(self._loss.of(yielded, due))
        return loss, abs(loss) + float(yielded.abs().max())

    def parameters(self) -> list[NDArray[Any]]:
        """Return the parameters by which gradients are taken."""
        leaves = _leaves(self._network)
        return [leaf.detach().double().cpu().numpy() for leaf in leaves]

    def _label(self, seed: int) -> str:
        return f"capsule-training-1\n{self._name}\n{seed}"

    def _place(self, inputs: Arrays) -> dict[str, NativeTensor]:
        """Place a tensor on the device, in float64."""
        device = self._like.device
        return {name: moves.widen(torch.from_numpy(one).to(device)) for name, one in inputs.items()}

    def _differentiate(
        self, network: torch.nn.Module, forward: Any, inputs: Values
    ) -> tuple[NativeTensor, ...]:
        leaves = _leaves(network)
        loss = self._loss.lose(forward, inputs)
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
        return (
            loss.detach(),
            *(
                torch.zeros_like(leaf) if one is None else one
                for one, leaf in zip(gradients, leaves)
            ),
        )


def _leaves(network: torch.nn.Module) -> list[NativeTensor]:
    return [leaf for leaf in network.parameters() if leaf.requires_grad]


class _Held(TorchDispatchMode):  # type: ignore[misc]
    """Compares what each operation yields with what it yields in float64."""

    def __init__(self, dtype: str, label: str) -> None:
        super().__init__()
        self._limits = moves.Limits(dtype, label, _PAIRS)
        self._draws = drawing.Draws(label)
        self._ratios = [0.0]
        # bound and size of what an operation wrote, by where it lies; a gradient may be a view
        self._written: dict[int, tuple[float, float]] = {}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if drawing.is_random(function, args, kwargs):
            return self._draws(function, args, kwargs)
        if moves.is_exact(function):
            return function(*args, **kwargs)
        wide = tree_map(_widen, args), tree_map(_widen, kwargs)
        try:
            due, limits = self._limits.find(function, *wide)
        except (NotImplementedError, RuntimeError) as error:
            words = str(error).partition("\n")[0]
            raise ValueError(
                f"torch cannot compute the float64 reference of {function}: {words}; leave trains"
                " out to measure only the module's inference"
            ) from error
        result = function(*args, **kwargs)
        for value, right, limit in zip(moves.tensors(result), due, limits):
            if limit is not None and value.numel():
                self._compare(value, right, limit)
        return result

    def worst(self) -> float:
        """Return the largest ratio of all operations; NaN if any is."""
        return float(torch.tensor(self._ratios, dtype=torch.float64).max())

    def share(self, gradients: list[NativeTensor]) -> float:
        """Return the bounds of what wrote these, over their sizes, all together."""
        written = [self._written.get(_place_of(one), (0.0, 0.0)) for one in gradients]
        bound, size = (math.hypot(*numbers) for numbers in zip(*written))
        return bound / size if size else float("inf")

    def _compare(self, value: NativeTensor, right: NativeTensor, limit: NativeTensor) -> None:
        wide = value.double()
        # infinities that are due are no differences
        off = float(torch.where(wide == right, 0.0, wide - right).norm())
        bound = float(limit.norm())
        self._ratios.append(off / bound if bound else (0.0 if off == 0 else float("inf")))
        self._written[_place_of(value)] = bound, float(right.norm())


def _place_of(tensor: NativeTensor) -> int:
    place: int = tensor.untyped_storage().data_ptr()
    return place


def _widen(value: Any) -> Any:
    """Return a copy in float64 of a real tensor, and float64 for the type of one."""
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value.clone()
    if isinstance(value, torch.dtype) and value.is_floating_point:
        return torch.float64
    return value
