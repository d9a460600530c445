"""Interface of frameworks that run a user's module without training it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Protocol

from ..operators.base import Call

if TYPE_CHECKING:
    from numpy.typing import NDArray

NativeTensor = Any
"""See `base`."""

Right = tuple[tuple[Any, ...], tuple[float, ...]]
"""Arrays of numpy that are due, and for each the largest right L2 norm of its error."""


Clock = Callable[[Callable[..., Any], tuple[Any, ...]], float]
"""Median seconds of calls of a function with such operands."""


class DifferentiatedModule(Protocol):
    """A user's module in the mode of training, with its weights, which stay.

    Inputs are those of its file by name, with what is due.
    """

    def training(self, inputs: Mapping[str, NativeTensor]) -> Call:
        """Yields the loss and its gradients by the trained parameters, each time it is called.

        Args:
            inputs: Made by `from_numpy`.

        Raises:
            ValueError: The module yields no loss.
        """

    def rehearse(self, inputs: Mapping[str, NativeTensor], seed: int) -> Call:
        """`training` that draws what `right` does with the same seed, each time."""

    def right(self, inputs: Mapping[str, NDArray[Any]], dtype: str, seed: int) -> Right:
        """Return the reference of `rehearse`; see `InferringModule.right`."""

    def hold(
        self, inputs: Mapping[str, NDArray[Any]], dtype: str, seed: int
    ) -> tuple[float, float]:
        """Hold each operation, forward and backward, to its own bound.

        Returns:
            The largest L2 norm of an error over its bound; and of the operations that yield the
            gradients, the bounds over the sizes, all together.

        Raises:
            ValueError: One of them has no reference.
        """

    def layers(self, inputs: Mapping[str, NativeTensor], clock: Clock) -> list[float]:
        """Return seconds of each operation of the backward pass alone, in its order.

        Args:
            inputs: See `training`.
            clock: Times it.
        """

    def lose(
        self, inputs: Mapping[str, NDArray[Any]], seed: int, parameters: list[NDArray[Any]]
    ) -> tuple[float, float]:
        """Return the loss in more bits, and the size of what it is computed from.

        Args:
            inputs: See `right`.
            seed: Likewise.
            parameters: The trained ones, in order.
        """

    def parameters(self) -> list[NDArray[Any]]:
        """Return the trained ones, in float64."""


class InferringModule(Protocol):
    """A user's module with its weights, which is not trained.

    Attributes:
        parameters: How many numbers they are.
    """

    parameters: int

    def inference(self, inputs: Mapping[str, NativeTensor]) -> Call:
        """Yields the tuple of what the module yields, each time it is called.

        Args:
            inputs: In the order of the file, made by `from_numpy`.
        """

    def right(self, inputs: Mapping[str, NDArray[Any]], dtype: str, seed: int) -> Right:
        """Return the reference of `inference`, in more bits, and the largest correct error norm.

        Args:
            inputs: Arrays that the dtype holds exactly.
            dtype: Element type of the module.
            seed: For the signs of moves.

        Raises:
            ValueError: There is none.
        """

    def exact(self, inputs: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], ...]:
        """Return the reference of `right`, without bounds.

        Args:
            inputs: See `right`.
        """

    def layers(self, inputs: Mapping[str, NativeTensor], clock: Clock) -> list[float]:
        """Return seconds of each operation alone, in order, with what reaches it.

        Args:
            inputs: See `inference`.
            clock: Times it.
        """

    def fewest_flops(self, inputs: Mapping[str, NativeTensor]) -> float:
        """Return operations that any algorithm needs for its products in its dtype; see
        `roofs.fewest`.

        Args:
            inputs: See `inference`.
        """

    def differentiation(self) -> DifferentiatedModule:
        """Return the same module, to be differentiated.

        Raises:
            ValueError: It has nothing to train, or its file says a loss that cannot be.
        """


class StartInferring(Protocol):
    """See `Networks.inferring`."""

    def __call__(self, source: Path, seed: int, like: NativeTensor) -> InferringModule:
        """Return the module of a file, with initial values that follow from the seed.

        Args:
            source: See `catalog.modules`.
            seed: Seed of the framework's own generator, when the module is made.
            like: A tensor that has the device and the dtype of its parameters.

        Raises:
            ValueError: The file or its module is not what it has to be.
        """
