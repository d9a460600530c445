"""What a framework must offer to be measured."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Callable, Protocol

if TYPE_CHECKING:
    from ..graphs.graph import Graph

Call = tuple[Callable[..., Any], tuple[Any, ...]]


class FrameworkError(Exception):
    """A framework, or the device asked of it, is not there."""


class Memory(Protocol):
    """Memory of a device that keeps count."""

    def free(self) -> int:
        """Bytes that can be had now."""

    def reset_peak(self) -> None:
        """Start to watch the peak."""

    def peak(self) -> int:
        """Most bytes that tensors held at once since `reset_peak`, those from before included."""


class Framework(Protocol):
    """Tensors in and out, operations, gradients, waiting, seeding, and the state in effect.

    `levels.operators` says what the methods for operators mean.

    Attributes:
        name: As in the catalogue.
        synchronize: Waits until the device is idle; None where calls return when they are done.
        memory: Of the device; None where tensors live in the host's memory.
        alone: Runs one node of a network on its own; None where that is this framework too.
    """

    name: str
    synchronize: Callable[[], None] | None
    memory: Memory | None
    alone: Framework | None

    def from_numpy(self, array: Any, dtype: str | None = None) -> Any:
        """A tensor on the job's device with the values of a numpy array, as `dtype`.

        Without a dtype, or for whole numbers, with the array's own type.
        """

    def to_numpy(self, tensor: Any) -> Any:
        """A numpy array with the values of a tensor, its dtype too unless numpy lacks it."""

    def dtype_of(self, tensor: Any) -> str:
        """The word for the type of a tensor's elements."""

    def arithmetic(self, dtype: str) -> AbstractContextManager[None]:
        """The switches that a dtype's word means, for the time of a trial."""

    def operation(self, name: str, sizes: Mapping[str, int], tensors: tuple[Any, ...]) -> Call:
        """The framework's own operation and its operands, to be called with nothing around."""

    def gradient(
        self,
        name: str,
        sizes: Mapping[str, int],
        tensors: tuple[Any, ...],
        wrt: tuple[int, ...],
        upstream: tuple[Any, ...],
    ) -> Call:
        """What yields the gradients by the tensors at `wrt`, as a tuple, each time it is called."""

    def inference(self, graph: Graph, values: Mapping[str, Any]) -> Call:
        """Yields the tuple of `graph.outputs`, each time it is called.

        Args:
            graph: A network, or one node of it.
            values: Tensors of all inputs and parameters by name, made by `from_numpy`.

        Raises:
            FrameworkError: It lacks an operator of the network.
        """

    def training(self, graph: Graph, values: Mapping[str, Any]) -> Call:
        """Yields (loss, *gradients by `graph.trained`), forward and backward each time.

        Raises:
            FrameworkError: It lacks an operator of the network, or does not differentiate.
            ValueError: The network has no loss.
        """

    def seed(self, seed: int) -> None:
        """Seed every generator that the framework's operations draw from, 32 bits."""

    def settings(self) -> dict[str, Any]:
        """What is in effect now and can change a result or a time, as JSON values.

        A setting that cannot be read is null, and `missing` gives the reason by its name.
        """
