"""Loss of a user's module, as its file declares it; see `catalog.modules`."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Callable

import torch
from torch.nn import functional

from ...catalog import modules
from ..base import NativeTensor

_LOSSES: dict[str, Callable[..., Any]] = {
    "cross_entropy": functional.cross_entropy,
    "mean_squared_error": functional.mse_loss,
}


class Loss:
    """The loss of a file's module, for the arrays of its file."""

    def __init__(self, name: str, file: ModuleType) -> None:
        """Read what the file says of it.

        Args:
            name: Name of the file.
            file: As it was imported, with `inputs` and `quality`.

        Raises:
            ValueError: It says something that cannot be.
        """
        self._name = name
        try:
            self._facts = modules.read(file.inputs, file.quality)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        loss = getattr(file, "loss", self._facts.loss)
        if not callable(loss) and (not isinstance(loss, str) or loss not in _LOSSES):
            raise ValueError(
                f"{name}: loss is {loss!r}, expected a function or one of {', '.join(_LOSSES)}"
            )
        self.of: Callable[..., Any] = loss if callable(loss) else _LOSSES[loss]

    def call(
        self, network: Callable[..., Any], inputs: Mapping[str, NativeTensor]
    ) -> tuple[NativeTensor, NativeTensor]:
        """Compute the loss of a network's output and its labels.

        Args:
            network: What the module is called by.
            inputs: The file's, by name.

        Raises:
            ValueError: It yields something of another shape.
        """
        facts = self._facts
        arrays = {
            name: inputs[name].reshape(-1, *sample.shape) for name, sample in facts.inputs.items()
        }
        due = arrays.pop(facts.due)
        outputs = network(*arrays.values())
        below = facts.inputs[facts.due].below
        shape = due.shape if below is None else (len(due), below, *due.shape[1:])
        if not isinstance(outputs, torch.Tensor) or tuple(outputs.shape) != tuple(shape):
            what = (
                f"shape {tuple(outputs.shape)}"
                if isinstance(outputs, torch.Tensor)
                else f"a {type(outputs).__name__}"
            )
            raise ValueError(f"{self._name} returned {what}, expected shape {tuple(shape)}")
        return outputs, due

    def lose(self, network: Callable[..., Any], inputs: Mapping[str, NativeTensor]) -> NativeTensor:
        """Return the loss, to be differentiated; arguments and errors as of `call`.

        Raises:
            ValueError: It is no scalar, or depends on no parameter.
        """
        loss = self.of(*self.call(network, inputs))
        if not isinstance(loss, torch.Tensor) or loss.ndim or not loss.requires_grad:
            what = f"a {type(loss).__name__}"
            if isinstance(loss, torch.Tensor):
                what = (
                    f"of shape {tuple(loss.shape)}"
                    if loss.ndim
                    else "independent of the parameters"
                )
            raise ValueError(
                f"the loss of {self._name} is {what}, expected a scalar that depends on the"
                " parameters"
            )
        return loss
