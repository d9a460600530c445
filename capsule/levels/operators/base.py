"""What an operator must tell to be measured and checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Callable

from ..words import fractions

Call = tuple[Callable[..., Any], tuple[Any, ...]]

ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}

WIDER = {"float32": "float64", "float64": "longdouble"}
"""In what numpy computes the reference: in more bits than the dtype under test, so that it takes
another path through other code. `longdouble` has 64 bits on x86 and 113 on Linux on Arm; where it
is no wider than a double it still uses neither BLAS nor SIMD exponentials."""


class Operator(ABC):
    """A forward operation with a reference in more bits and an a-priori bound on its error.

    Attributes:
        name: As in the catalogue.
        scale: Inputs are spread evenly over `(offset, offset + scale)`; both are powers of two or
            sums of two, so that inputs are exact in every dtype.
        offset: See `scale`.
    """

    name: str
    scale: float
    offset: float

    @abstractmethod
    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Name and shape of each input tensor, in the order of the call."""

    @abstractmethod
    def native(self, framework: str, tensors: tuple[Any, ...]) -> Call:
        """The framework's own operation and its operands, to be called without anything around."""

    @abstractmethod
    def reference(self, *inputs: Any) -> Any:
        """The result in numpy, in the dtype of the inputs, which is `WIDER[dtype]`."""

    @abstractmethod
    def bound(self, reference: Any, roundoff: float, *inputs: Any) -> float:
        """The largest L2 norm that the error of a correct implementation can have.

        Args:
            reference: The result in float64.
            roundoff: Unit roundoff u of the arithmetic: 2**-24 for float32, 2**-53 for float64.
            inputs: The inputs in float64.

        Returns:
            A number above 0, in the unit of the result.
        """

    def inputs(self, sizes: Mapping[str, int], dtype: str, seed: int) -> tuple[Any, ...]:
        """The input arrays of one trial, the same for every framework and on every machine.

        Args:
            sizes: The case's parameters.
            dtype: `float32` or `float64`.
            seed: The trial's seed.

        Returns:
            C-ordered numpy arrays of `dtype` in the order of `shapes`.
        """
        return tuple(
            self._tensor(name, shape, dtype, seed) for name, shape in self.shapes(sizes).items()
        )

    def _tensor(self, name: str, shape: tuple[int, ...], dtype: str, seed: int) -> Any:
        count = 1
        for length in shape:
            count *= length
        label = f"capsule-input-1\n{self.name}\n{name}\n{shape}\n{dtype}\n{seed}\n"
        values = fractions(label, count, dtype) * self.scale + self.offset
        return values.astype(dtype).reshape(shape)
