"""Interface of frameworks that train networks and users' modules, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Protocol, runtime_checkable

from ..operators.base import Call

if TYPE_CHECKING:
    from ..catalog.training import Numbers, Tuning
    from ..graphs.graph import Graph
    from ..optimizers import Chosen

NativeTensor = Any
"""See `base`."""


class Trainer(Protocol):
    """A network in training: its parameters and what the optimizer keeps of them."""

    def step(self, inputs: Mapping[str, NativeTensor], rate: float) -> NativeTensor:
        """Move the parameters once.

        Args:
            inputs: All that the graph takes, made by `from_numpy`, of one micro-batch or several:
                gradients are averaged over them, and the optimizer takes its step once.
            rate: Learning rate of this step.

        Returns:
            The loss before the step, which need not be there yet.
        """

    def evaluate(
        self, graph: Graph, inputs: Mapping[str, NativeTensor]
    ) -> tuple[NativeTensor, ...]:
        """Return the outputs and then the loss, of inference with the present parameters.

        Args:
            graph: What `graphs.statistics.evaluation` makes of the network, for any batch size.
            inputs: See `step`.
        """

    def parameters(self) -> dict[str, NativeTensor]:
        """Return the trained ones as they are now, by name, and the kept `graphs.statistics`."""


@runtime_checkable
class Tunable(Trainer, Protocol):
    """A trainer whose layouts and kernels can be chosen."""

    def tune(self, tuning: Tuning) -> None:
        """Lay out tensors and choose kernels, before the first step."""


@runtime_checkable
class Resumable(Trainer, Protocol):
    """A trainer that another one can take over from."""

    def state(self) -> dict[str, NativeTensor]:
        """Return all that later steps depend on, by name: `parameters`, and what the optimizer
        keeps.

        Only once a step was taken.
        """

    def restore(self, state: Mapping[str, NativeTensor]) -> None:
        """Go on as the trainer would whose `state` this was, bit by bit.

        Args:
            state: Made by `from_numpy` of what `to_numpy` made of its tensors.

        Raises:
            LookupError: It is not that of a trainer of this network with this optimizer.
            ValueError: Likewise.
        """


@runtime_checkable
class Distributable(Resumable, Protocol):
    """A trainer that can train together with those of other processes."""

    def exchange_by(self, exchange: Callable[[Mapping[str, NativeTensor]], None]) -> None:
        """Have a function called in each step, with gradients there and the optimizer to come.

        Args:
            exchange: Gets the trained parameters by name, tensors of torch, and may change their
                `grad`: one that is None afterwards is not moved.
        """

    def lay_out(
        self,
        change: Callable[[Graph], Graph],
        operations: Mapping[str, Callable[..., Call]],
    ) -> None:
        """Run what is made of a network in its place, before the first step.

        Args:
            change: Makes it, of the same inputs, parameters and outputs, for training and
                evaluation.
            operations: For each operator in it that no network has otherwise, what gives a function
                and its operands for a node's sizes and inputs.
        """

    def differentiate_by(
        self, differentiate: Callable[[Mapping[str, NativeTensor]], NativeTensor]
    ) -> None:
        """Have a function take the place of a step's passes, before the first step.

        Args:
            differentiate: Gets what `step` does, makes gradients of what the optimizer moves, and
                gives the loss.
        """

    def keep_in(self, holder: Holder) -> None:
        """Have something else keep the trained parameters, before the first step.

        Args:
            holder: Has what the optimizer, which begins anew, moves in their place.
        """


class Holder(Protocol):
    """Holder of a trainer's parameters in tensors of other shapes.

    Attributes:
        kept: What an optimizer moves, by name, tensors of torch that are leaves.
    """

    kept: Mapping[str, NativeTensor]

    def lend(self, function: Callable[[Mapping[str, NativeTensor]], NativeTensor]) -> NativeTensor:
        """Apply a function to the parameters by name; once for each micro-batch of a step."""

    def parameters(self) -> Mapping[str, NativeTensor]:
        """Return the parameters by name."""


class StartTraining(Protocol):
    """See `Networks.trainer`."""

    def __call__(
        self, graph: Graph, values: Mapping[str, NativeTensor], optimizer: Chosen, numbers: Numbers
    ) -> Trainer:
        """Training from the first step, with copies of the parameters.

        Args:
            graph: The network, for the batch of a step or the micro-batches that make it up.
            values: Its parameters by name, made by `from_numpy`.
            optimizer: Key of `catalog.training.OPTIMIZERS`, or a user's.
            numbers: All that it takes; the rate comes with each step.

        Raises:
            FrameworkError: The framework lacks an operator of the network.
            ValueError: The network has no loss.
        """


class ModuleTrainer(Resumable, Protocol):
    """A user's module in training; its state has what it draws from."""

    def differentiate(
        self, values: Mapping[str, NativeTensor], inputs: Mapping[str, NativeTensor]
    ) -> dict[str, NativeTensor]:
        """Return gradients of a step's loss by the trained parameters that it depends on, by name.

        Args:
            values: What these are; the module keeps them.
            inputs: See `step`.
        """


class StartModule(Protocol):
    """See `Networks.module`."""

    def __call__(
        self, source: Path, seed: int, like: NativeTensor, optimizer: Chosen, numbers: Numbers
    ) -> ModuleTrainer:
        """Training from the first step, with initial values that follow from the seed.

        Args:
            source: The user's file; see `catalog.modules`.
            seed: Seed of the framework's own generator, when the module is made.
            like: A tensor that has the device and the dtype of its parameters.
            optimizer: See `StartTraining`.
            numbers: Likewise.

        Raises:
            ValueError: The file or its module is not what it has to be.
        """
