"""Interface of frameworks: the required parts, and the optional ones.

Every framework has tensors, a seed and settings. Each further ability is an object, or a function
of such an object, that is None if the framework lacks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Callable, Protocol, TypeVar, runtime_checkable

from ..operators.base import Call, Operator
from .inferring import InferringModule, Right, StartInferring
from .trainers import (
    Distributable,
    Holder,
    ModuleTrainer,
    Resumable,
    StartModule,
    StartTraining,
    Trainer,
    Tunable,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..catalog.training import Tuning
    from ..graphs.graph import Graph

NativeTensor = Any
"""A tensor of a framework's own."""

Sent = Any
"""Copies that are under way, see `Transfer`."""

Mark = Any
"""A place in a device's queue; see `DeviceClock`."""

__all__ = [
    "Backward",
    "Call",
    "DeviceClock",
    "Distributable",
    "Framework",
    "FrameworkError",
    "Gradient",
    "Holder",
    "InferringModule",
    "KeepsDoubles",
    "Memory",
    "ModuleTrainer",
    "NativeTensor",
    "Networks",
    "Operators",
    "Resumable",
    "Right",
    "StartInferring",
    "StartModule",
    "StartTraining",
    "Trainer",
    "Training",
    "Transfer",
    "Tunable",
    "look_up",
    "require",
    "tune",
]

_Capability = TypeVar("_Capability")
_Entry = TypeVar("_Entry")


class FrameworkError(Exception):
    """A framework, the device asked of it, or something that it has to do, is not there."""


def require(capability: _Capability | None, framework: str, what: str) -> _Capability:
    """Return a capability that a trial cannot do without.

    Raises:
        FrameworkError: The framework lacks it; the message says that it does not do `what`.
    """
    if capability is None:
        raise FrameworkError(f"{framework} does not {what}")
    return capability


def tune(trainer: Trainer, tuning: Tuning, framework: str) -> None:
    """Tune a trainer that has taken no step.

    Raises:
        FrameworkError: The framework has no tuning.
    """
    if any(tuning):
        able = trainer if isinstance(trainer, Tunable) else None
        require(able, framework, "tune trainings").tune(tuning)


def require_shape(name: str, shape: Iterable[int], due: Iterable[int]) -> None:
    """Refuse a tensor in whose place one of another shape belongs.

    Raises:
        ValueError: Names both.
    """
    if tuple(shape) != tuple(due):
        raise ValueError(f"{name} has shape {tuple(shape)}, expected {tuple(due)}")


def look_up(table: Mapping[str, _Entry], operator: Operator, framework: str) -> _Entry:
    """Return a framework's own entry for an operator of the catalogue.

    Raises:
        FrameworkError: It has none, or the operator is a user's, whatever its name.
    """
    if operator.natives is not None or operator.name not in table:
        raise FrameworkError(f"{framework} has no operator {operator.name}")
    return table[operator.name]


class Memory(Protocol):
    """Memory of a device that keeps count."""

    def free(self) -> int:
        """Return the bytes that are free now."""

    def reset_peak(self) -> None:
        """Start to watch the peak."""

    def peak(self) -> int:
        """Return the most bytes that tensors held at once since `reset_peak`, those from before
        included.
        """


class Transfer(Protocol):
    """Copies of minibatches to a device that computes meanwhile, and of results back to the host.

    Only `read` waits for the device.
    """

    def pin(self, array: NDArray[Any], dtype: str) -> NativeTensor:
        """Return a copy of an array in host memory that the device reads by itself.

        Several threads may call it at once. For the dtype see `Framework.from_numpy`.
        """

    def send(self, pinned: Mapping[str, NativeTensor]) -> Sent:
        """Begin to copy pinned tensors to the device, beside its computations."""

    def receive(self, sent: Sent) -> dict[str, NativeTensor]:
        """Return the copies for later operations, which wait on the device for their end."""

    def choose(self, scores: NativeTensor) -> NativeTensor:
        """Return the place of the largest number along axis 1, the first of equals."""

    def read(self, tensors: Sequence[NativeTensor]) -> list[NDArray[Any]]:
        """Return tensors as arrays, as `Framework.to_numpy` does, by a single copy."""

    def measure_copies(self) -> float:
        """Return the seconds that all copies to the device took, once it is idle."""


@runtime_checkable
class KeepsDoubles(Protocol):
    """Interface of frameworks with arrays on the device that numpy's functions accept."""

    def to_doubles(self, array: NDArray[Any]) -> Any:
        """Return an array on the device that numpy's functions accept, with reals in float64."""


class DeviceClock(Protocol):
    """Clock of a device that works through a queue of calls.

    A mark waits in the queue like a call, and the device notes the time when it reaches the mark.
    """

    def mark(self) -> Mark:
        """Put a mark at the end of the queue."""

    def has_passed(self, mark: Mark) -> bool:
        """Return whether the device has reached a mark, without a wait."""

    def seconds(self, begin: Mark, end: Mark) -> float:
        """Wait until the device reaches `end`; return the seconds since it reached `begin`."""

    def hold(self, seconds: float) -> None:
        """Queue work that keeps the device busy for about so many seconds."""

    def flush(self) -> None:
        """Queue work that removes the data of earlier calls from the device's caches."""

    def reserve(self) -> int:
        """Return the bytes of the device that the next `flush` takes and keeps."""


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
        """Return a function that computes the gradients by the tensors at `wrt`, as a tuple."""


class Operators(Protocol):
    """Runs single operators; `levels.operators` says what is agreed on between the two.

    One of a user's file may bring its own (`Operator.natives`), which nothing keeps.
    """

    def operation(
        self, operator: Operator, sizes: Mapping[str, int], tensors: tuple[NativeTensor, ...]
    ) -> Call:
        """Return the operator's own operation or the framework's, to be called with nothing around.

        Raises:
            FrameworkError: There is neither.
        """

    @property
    def gradient(self) -> Gradient | None:
        """Return the differentiation, or None if the framework has none."""


class Training(Protocol):
    """See `Networks.training`."""

    def __call__(self, graph: Graph, values: Mapping[str, NativeTensor]) -> Call:
        """Yields (loss, *gradients by `graph.trainable`), forward and backward each time.

        Raises:
            FrameworkError: The framework lacks an operator of the network.
            ValueError: The network has no loss.
        """


class Backward(Protocol):
    """See `Networks.backward`."""

    def __call__(
        self, graph: Graph, values: Mapping[str, NativeTensor], upstream: NativeTensor
    ) -> Call:
        """Yields the gradients by `graph.trainable` of a node, each time it is called.

        What the node computes forward is computed once, before.

        Args:
            graph: A network of one node.
            values: See `Networks.inference`.
            upstream: The gradient of what the node yields, of its shape and type.
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
    def backward(self) -> Backward | None:
        """Return the differentiation of single nodes of a network, or None."""

    @property
    def training(self) -> Training | None:
        """Return the differentiation of networks, or None."""

    @property
    def trainer(self) -> StartTraining | None:
        """Return the trainer of networks, or None."""

    @property
    def module(self) -> StartModule | None:
        """Return the runner of users' modules, or None."""

    @property
    def inferring(self) -> StartInferring | None:
        """Return the runner of users' modules without training, or None."""

    @property
    def mixed_trainer(self) -> StartTraining | None:
        """Return the trainer in `catalog.training.MIXED`, evaluations included, or None."""


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
        """Return the memory of the device; None if tensors live in the host's memory."""

    @property
    def device_clock(self) -> DeviceClock | None:
        """Return the clock of the device; None where calls return when they are done."""

    @property
    def transfer(self) -> Callable[[], Transfer] | None:
        """Begins copies beside computations; None where calls return when they are done."""

    @property
    def operators(self) -> Operators:
        """Return the runner of single operators."""

    @property
    def networks(self) -> Networks | None:
        """Return the runner of networks, or None."""

    @property
    def fill(self) -> Callable[[NativeTensor, NDArray[Any]], None] | None:
        """Puts an array's values into a tensor; None where tensors stay as they are."""

    def from_numpy(self, array: NDArray[Any], dtype: str | None = None) -> NativeTensor:
        """Return a tensor on the job's device with the values of a numpy array, as `dtype`.

        Without a dtype, or for whole numbers, with the array's own type.
        """

    def to_numpy(self, tensor: NativeTensor) -> NDArray[Any]:
        """Return a numpy array with the values of a tensor, its dtype too unless numpy lacks it."""

    def dtype_of(self, tensor: NativeTensor) -> str:
        """Return the word for the type of a tensor's elements."""

    def arithmetic(self, dtype: str) -> AbstractContextManager[None]:
        """Return the switches that a dtype's word means, for the time of a trial."""

    def seed(self, seed: int) -> None:
        """Seed every generator that the framework's operations draw from, 32 bits."""

    def settings(self) -> dict[str, Any]:
        """Return the settings in effect that can change a result or a time, as JSON values.

        A setting that cannot be read is null, and `missing` gives the reason by its name.
        """
