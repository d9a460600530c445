"""What a framework offers that runs a user's module without training it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..operators.base import Call

if TYPE_CHECKING:
    from numpy.typing import NDArray

NativeTensor = Any
"""See `base`."""

Right = tuple[tuple[Any, ...], tuple[float, ...]]
"""Arrays of numpy that are due, and for each the largest right L2 norm of its error."""


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
        """What is due of `inference`, in more bits, and the largest right L2 norm of its error.

        Args:
            inputs: Arrays that the dtype holds exactly.
            dtype: Of the module.
            seed: For the signs of moves.

        Raises:
            ValueError: There is none.
        """


class StartInferring(Protocol):
    """See `Networks.inferring`."""

    def __call__(self, source: Path, seed: int, like: NativeTensor) -> InferringModule:
        """The module of a file, with initial values that follow from the seed.

        Args:
            source: See `catalog.modules`.
            seed: Of the framework's own generator, when the module is made.
            like: A tensor that has the device and the dtype of its parameters.

        Raises:
            ValueError: The file or its module is not what it has to be.
        """
