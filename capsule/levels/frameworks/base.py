"""What a framework must offer to be measured, and what it may.

Every framework has tensors, a seed and settings. Each further thing that it can do is an object, or
one function of such an object, that is None where it cannot: nothing is there only to refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Protocol, TypeVar, runtime_checkable

from ..operators.base import Call, Operator
from .inferring import InferringModule, Right, StartInferring

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..catalog.training import Numbers
    from ..graphs.graph import Graph
    from ..optimizers import Chosen

NativeTensor = Any
"""A tensor of a framework's own."""

__all__ = [
    "Call",
    "Framework",
    "FrameworkError",
    "Gradient",
    "InferringModule",
    "Memory",
    "ModuleTrainer",
    "NativeTensor",
    "Networks",
    "Operators",
    "Right",
    "StartInferring",
    "StartModule",
    "StartTraining",
    "Trainer",
    "Training",
    "look_up",
    "require",
]

_Capability = TypeVar("_Capability")
_Entry = TypeVar("_Entry")


class FrameworkError(Exception):
    """A framework, the device asked of it, or something that it has to do, is not there."""


def require(capability: _Capability | None, framework: str, what: str) -> _Capability:
    """A capability that a trial cannot do without.

    Raises:
        FrameworkError: The framework lacks it; the message says that it does not do `what`.
    """
    if capability is None:
        raise FrameworkError(f"{framework} does not {what}")
    return capability


def require_shape(name: str, shape: Iterable[int], due: Iterable[int]) -> None:
    """Refuse a tensor in whose place one of another shape belongs.

    Raises:
        ValueError: Names both.
    """
    if tuple(shape) != tuple(due):
        raise ValueError(f"{name} has the shape {tuple(shape)}, not {tuple(due)}")


def look_up(table: Mapping[str, _Entry], operator: Operator, framework: str) -> _Entry:
    """A framework's own entry for an operator of the catalogue.

    Raises:
        FrameworkError: It has none, or the operator is a user's, whatever its name.
    """
    if operator.natives is not None or operator.name not in table:
        raise FrameworkError(f"{framework} has no operator {operator.name}")
    return table[operator.name]


class Memory(Protocol):
    """Memory of a device that keeps count."""

    def free(self) -> int:
        """Bytes that can be had now."""

    def reset_peak(self) -> None:
        """Start to watch the peak."""

    def peak(self) -> int:
        """Most bytes that tensors held at once since `reset_peak`, those from before included."""


class Gradient(Protocol):
    """See `Operators.gradient`."""

    def __call__(
        self,
        operator: Operator,
        sizes: Mapping[str, int],
        tensors: tuple[NativeTensor, ...],
        wrt: tuple[int, ...],
        upstream: tuple[NativeTensor, ...],
    ) -> Call:
        """What yields the gradients by the tensors at `wrt`, as a tuple, each time it is called."""


class Operators(Protocol):
    """Runs single operators; `levels.operators` says what is agreed on between the two.

    One of a user's file may bring its own (`Operator.natives`), which nothing keeps.
    """

    def operation(
        self, operator: Operator, sizes: Mapping[str, int], tensors: tuple[NativeTensor, ...]
    ) -> Call:
        """The operator's own operation or the framework's, to be called with nothing around.

        Raises:
            FrameworkError: There is neither.
        """

    @property
    def gradient(self) -> Gradient | None:
        """None for a framework that does not differentiate."""


class Training(Protocol):
    """See `Networks.training`."""

    def __call__(self, graph: Graph, values: Mapping[str, NativeTensor]) -> Call:
        """Yields (loss, *gradients by `graph.trainable`), forward and backward each time.

        Raises:
            FrameworkError: The framework lacks an operator of the network.
            ValueError: The network has no loss.
        """


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
        """The outputs and then the loss, of inference with the present parameters.

        Args:
            graph: What `graphs.statistics.evaluation` makes of the network, for any batch size.
            inputs: As of `step`.
        """

    def parameters(self) -> dict[str, NativeTensor]:
        """The trained ones as they are now, by name, and the kept `graphs.statistics`."""


@runtime_checkable
class Resumable(Trainer, Protocol):
    """A trainer that another one can take over from."""

    def state(self) -> dict[str, NativeTensor]:
        """All that later steps depend on, by name: `parameters`, and what the optimizer keeps.

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
    """What keeps the trained parameters of a trainer in tensors of other shapes.

    Attributes:
        kept: What an optimizer moves, by name, tensors of torch that are leaves.
    """

    kept: Mapping[str, NativeTensor]

    def lend(self, function: Callable[[Mapping[str, NativeTensor]], NativeTensor]) -> NativeTensor:
        """What a function makes of the parameters by name; of a step once for each micro-batch."""

    def parameters(self) -> Mapping[str, NativeTensor]:
        """The parameters by name."""


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
        """Gradients of a step's loss by the trained parameters that it depends on, by name.

        Args:
            values: What these are; the module keeps them.
            inputs: As of `step`.
        """


class StartModule(Protocol):
    """See `Networks.module`."""

    def __call__(
        self, source: Path, seed: int, like: NativeTensor, optimizer: Chosen, numbers: Numbers
    ) -> ModuleTrainer:
        """Training from the first step, with initial values that follow from the seed.

        Args:
            source: The user's file; see `catalog.modules`.
            seed: Of the framework's own generator, when the module is made.
            like: A tensor that has the device and the dtype of its parameters.
            optimizer: See `StartTraining`.
            numbers: Likewise.

        Raises:
            ValueError: The file or its module is not what it has to be.
        """


class Networks(Protocol):
    """Runs whole networks."""

    def inference(self, graph: Graph, values: Mapping[str, NativeTensor]) -> Call:
        """Yields the tuple of `graph.outputs`, each time it is called.

        Args:
            graph: A network.
            values: Tensors of all inputs and parameters by name, made by `from_numpy`.

        Raises:
            FrameworkError: The framework lacks an operator of the network.
        """

    def alone(self, graph: Graph, values: Mapping[str, NativeTensor]) -> Call:
        """`inference` of a network of one node, as the framework runs a node on its own."""

    @property
    def training(self) -> Training | None:
        """None for a framework that does not differentiate."""

    @property
    def trainer(self) -> StartTraining | None:
        """None for a framework that no training runs in."""

    @property
    def module(self) -> StartModule | None:
        """None for a framework that has no modules of its own."""

    @property
    def inferring(self) -> StartInferring | None:
        """As `module`, without training."""

    @property
    def mixed_trainer(self) -> StartTraining | None:
        """As `trainer`, in `catalog.training.MIXED`; evaluations too. None where there is none."""


class Framework(Protocol):
    """Tensors in and out, waiting, seeding, the state in effect, and capabilities.

    Its `name` is that of the catalogue.
    """

    name: str

    @property
    def synchronize(self) -> Callable[[], None] | None:
        """Waits until the device is idle; None where calls return when they are done."""

    @property
    def memory(self) -> Memory | None:
        """Of the device; None where tensors live in the host's memory."""

    @property
    def operators(self) -> Operators:
        """How single operators are run."""

    @property
    def networks(self) -> Networks | None:
        """None where networks cannot be run."""

    @property
    def fill(self) -> Callable[[NativeTensor, NDArray[Any]], None] | None:
        """Puts an array's values into a tensor; None where tensors stay as they are."""

    def from_numpy(self, array: NDArray[Any], dtype: str | None = None) -> NativeTensor:
        """A tensor on the job's device with the values of a numpy array, as `dtype`.

        Without a dtype, or for whole numbers, with the array's own type.
        """

    def to_numpy(self, tensor: NativeTensor) -> NDArray[Any]:
        """A numpy array with the values of a tensor, its dtype too unless numpy lacks it."""

    def dtype_of(self, tensor: NativeTensor) -> str:
        """The word for the type of a tensor's elements."""

    def arithmetic(self, dtype: str) -> AbstractContextManager[None]:
        """The switches that a dtype's word means, for the time of a trial."""

    def seed(self, seed: int) -> None:
        """Seed every generator that the framework's operations draw from, 32 bits."""

    def settings(self) -> dict[str, Any]:
        """What is in effect now and can change a result or a time, as JSON values.

        A setting that cannot be read is null, and `missing` gives the reason by its name.
        """
