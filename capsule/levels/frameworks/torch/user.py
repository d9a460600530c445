"""A user's optimizer of torch, where one of torch's own is due; see `catalog.optimizers`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Callable

import torch

from ...catalog.training import Numbers
from ...optimizers.user import UserOptimizer
from ..base import NativeTensor

_STRUCTURE = "structure"


class UserTorchOptimizer:
    """One over parameters that are there."""

    def __init__(
        self, optimizer: UserOptimizer, leaves: tuple[NativeTensor, ...], numbers: Numbers
    ) -> None:
        """Let the file make it.

        Raises:
            ValueError: What it makes is no optimizer of these parameters, or has moved them.
        """
        self._name = optimizer.name
        self._leaves = leaves
        before = [leaf.detach().clone() for leaf in leaves]
        made = optimizer.torch(list(leaves), dict(numbers))
        if not isinstance(made, torch.optim.Optimizer):
            raise ValueError(
                f"torch() of {self._name} returned {type(made).__name__}, not a torch Optimizer"
            )
        self._made = made
        held = [id(leaf) for group in self.param_groups for leaf in group["params"]]
        if sorted(held) != sorted(map(id, leaves)):
            raise ValueError(
                f"torch() of {self._name} returned an optimizer of {len(held)} tensors, expected"
                f" each of the {len(leaves)} parameters once"
            )
        if changed := [not torch.equal(*pair) for pair in zip(leaves, before)].count(True):
            raise ValueError(
                f"torch() of {self._name} changed {changed} of {len(leaves)} parameters before the"
                " first step: change parameters only in step()"
            )

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Return the parameter groups of torch's optimizer."""
        groups: list[dict[str, Any]] = self._made.param_groups
        return groups

    def zero_grad(self, *, set_to_none: bool) -> None:  # noqa: ARG002
        """Forget gradients, whatever the file's own does."""
        for leaf in self._leaves:
            leaf.grad = None

    def step(self, closure: Callable[[], NativeTensor] | None = None) -> NativeTensor | None:
        """Return one step with the gradients that the closure leaves: the file's own is given
        none.
        """
        loss = closure() if closure else None
        self._made.step()
        return loss

    def state(self) -> dict[str, NativeTensor]:
        """Return the tensors of its `state_dict`, and the structure that they stand in.

        Raises:
            ValueError: It holds something that no checkpoint keeps.
        """
        tensors: list[NativeTensor] = []
        try:
            structure = _pack(self._made.state_dict(), tensors, "state_dict()")
        except ValueError as error:
            raise ValueError(f"{self._name}: {error}; leave checkpoint_epochs out") from None
        text = torch.tensor(list(json.dumps(structure).encode()), dtype=torch.uint8)
        return {_STRUCTURE: text, **{str(place): one for place, one in enumerate(tensors)}}

    def restore(self, state: Mapping[str, NativeTensor]) -> None:
        """Restore the state by `load_state_dict`.

        Raises:
            LookupError: It is no state of such an optimizer.
            ValueError: Likewise.
        """
        structure = json.loads(bytes(state[_STRUCTURE].tolist()))
        try:
            self._made.load_state_dict(_unpack(structure, state))
        except (AttributeError, RuntimeError, TypeError) as error:
            raise ValueError(f"load_state_dict() of {self._name} failed: {error}") from None


def _pack(value: Any, tensors: list[NativeTensor], where: str) -> Any:
    """Return a value as JSON, with the places of its tensors in a list that grows.

    Raises:
        ValueError: It is, or holds, neither a tensor nor what JSON knows.
    """
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"tensor": len(tensors) - 1, "device": value.device.type}
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) in (list, tuple):
        packed = [_pack(one, tensors, f"{where}[{place}]") for place, one in enumerate(value)]
        return {type(value).__name__: packed}
    if isinstance(value, dict) and all(type(key) in (int, str) for key in value):
        return {
            "dict": [[key, _pack(one, tensors, f"{where}[{key!r}]")] for key, one in value.items()]
        }
    raise ValueError(f"{where} is a {type(value).__name__}, which checkpoints cannot store")


def _unpack(packed: Any, tensors: Mapping[str, NativeTensor]) -> Any:
    """Unpack the output of `_pack`."""
    if not isinstance(packed, dict):
        return packed
    if "tensor" in packed:
        return tensors[str(packed["tensor"])].to(packed["device"])
    if "dict" in packed:
        return {key: _unpack(one, tensors) for key, one in packed["dict"]}
    ((kind, values),) = packed.items()
    whole = (_unpack(one, tensors) for one in values)
    return tuple(whole) if kind == "tuple" else list(whole)
