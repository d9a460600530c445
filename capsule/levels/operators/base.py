"""Interface of operators: everything needed to measure and check one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Callable

from ..streams import spread, words
from .likely import PerElement
from .rounding import ARITHMETIC, EXACT, Arithmetic, Calculator, Rounded, Rounding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = tuple[NDArray[Any], ...]

Sizes = Mapping[str, int]

Call = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its operands, so that `function(*operands)` is what is timed."""


@dataclass(frozen=True)
class Tensor:
    """One input of an operator.

    Attributes:
        shape: Lengths of its axes.
        offset: Real inputs are spread evenly over `(offset, offset + scale)`, and rounded to the
            dtype.
        scale: See `offset`; in the catalogue both are powers of two or sums of two, so that inputs
            are exact in every dtype.
        below: For whole numbers (indices, class labels), from 0 to `below - 1`; `None` for reals.
            With `below` 2 and `real` it is a mask of zeros and ones in the dtype.
        real: True if its elements have the trial's dtype.
        stored: numpy's dtype of those that have not; what it does not hold wraps around.
        gradient: True if the operator is differentiated by it.
    """

    shape: tuple[int, ...]
    offset: float = -0.25
    scale: float = 1.0
    below: int | None = None
    real: bool = True
    gradient: bool = True
    stored: str = "int64"


class Operator(ABC):
    """An operation with its formula, its derivative and its inputs, and nothing of a framework.

    Attributes:
        name: As in the catalogue.
        smooth: False for an operator that is linear but for kinks, as a maximum is.
        typed: True if its products are of the trial's dtype, so that none is faster than a product
            of matrices in it.
        natives: What a user's operator brings to be measured: by framework, a function of the sizes
            and tensors. None for an operator of the catalogue, which frameworks have themselves.
    """

    name: str
    smooth = True
    typed = True
    natives: Mapping[str, Callable[..., Call]] | None = None

    @abstractmethod
    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return every input by name, in the order of the call.

        Raises:
            ValueError: The sizes do not go together.
        """

    @abstractmethod
    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the formula: an array, or a tuple of arrays for several outputs."""

    @abstractmethod
    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Return the gradient of `sum(upstream * output)` for each differentiable input, in order.

        With several outputs `upstream` is a tuple.
        """

    @abstractmethod
    def flops(self, sizes: Sizes) -> int:
        """Arithmetic operations of the textbook formula, each addition, multiplication, division,
        comparison and elementary function counted as 1, forward only.
        """

    @abstractmethod
    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return the shape of each result."""

    def bytes(self, sizes: Sizes, dtype: str) -> int:
        """Return the bytes that the operation must move: inputs read and outputs written once.

        Whole numbers count what they are stored in, as indices 8 bytes.
        """
        import numpy

        size = ARITHMETIC[dtype].bytes
        read = sum(
            prod(tensor.shape) * (size if tensor.real else numpy.dtype(tensor.stored).itemsize)
            for tensor in self.tensors(sizes).values()
        )
        return read + size * sum(map(prod, self.outputs(sizes)))

    def workspace(self, sizes: Sizes) -> int:  # noqa: ARG002
        """Return elements that the formula holds at once beside inputs, outputs and their
        gradients.
        """
        return 0

    def inputs(self, sizes: Sizes, dtype: str, seed: int) -> Arrays:
        """Return the input arrays of one trial, the same for every framework and on every machine.

        Args:
            sizes: The case's parameters, options included.
            dtype: A key of `ARITHMETIC`.
            seed: The trial's seed.

        Returns:
            C-ordered numpy arrays in the order of `tensors`: `Tensor.stored` for whole numbers,
            else `ARITHMETIC[dtype].stored`, with values that the dtype holds exactly.
        """
        return tuple(
            _array(self.name, name, tensor, dtype, seed)
            for name, tensor in self.tensors(sizes).items()
        )

    def upstream(self, sizes: Sizes, dtype: str, seed: int) -> Arrays:
        """Return the gradient that arrives at each output, made like an input."""
        return tuple(
            _array(self.name, f"upstream {index}", Tensor(shape), dtype, seed)
            for index, shape in enumerate(self.outputs(sizes))
        )

    def hard_inputs(self, sizes: Sizes, dtype: str, seed: int) -> Arrays:
        """`inputs` for checks, with numbers among them that implementations stumble over.

        Of four elements and more the first is the least that may be drawn, the last is the most;
        of whole numbers the first two and the last two. An operator adds what is hard for it, and
        one that makes its inputs itself makes these.
        """
        arrays = self.inputs(sizes, dtype, seed)
        if type(self).inputs is not Operator.inputs:
            return arrays
        for array, tensor in zip(arrays, self.tensors(sizes).values()):
            _reach_ends(array, tensor, dtype)
        return arrays

    def hard_upstream(self, sizes: Sizes, dtype: str, seed: int) -> Arrays:
        """`upstream` for checks, with both ends of its range."""
        arrays = self.upstream(sizes, dtype, seed)
        for array in arrays:
            _reach_ends(array, Tensor(array.shape), dtype)
        return arrays

    def wrt(self, sizes: Sizes) -> tuple[int, ...]:
        """Return positions of the inputs that it is differentiated by."""
        return tuple(
            place for place, tensor in enumerate(self.tensors(sizes).values()) if tensor.gradient
        )


def reference(operator: Operator, sizes: Sizes, inputs: Arrays, dtype: str) -> Arrays:
    """Return the outputs in more bits than the dtype has."""
    return reference_outputs(operator, sizes, _widen(inputs, dtype))


def reference_outputs(operator: Operator, sizes: Sizes, inputs: Arrays) -> Arrays:
    """Return the outputs in the dtype of the inputs."""
    return several(operator.forward(EXACT, sizes, *inputs))


def reference_gradients(
    operator: Operator, sizes: Sizes, inputs: Arrays, upstream: Arrays, dtype: str
) -> Arrays:
    """Return the gradients in more bits than the dtype has."""
    arriving = one(_widen(upstream, dtype))
    return operator.backward(EXACT, sizes, arriving, *_widen(inputs, dtype))


def bounds(operator: Operator, sizes: Sizes, inputs: Arrays, dtype: str) -> tuple[float, ...]:
    """Return the largest L2 norm that the error of each output of a right implementation can
    have.
    """
    c = _rounding(dtype)
    return _norms(several(operator.forward(c, sizes, *_enter(c, inputs))), dtype)


def gradient_bounds(
    operator: Operator, sizes: Sizes, inputs: Arrays, upstream: Arrays, dtype: str
) -> tuple[float, ...]:
    """Return the largest L2 norm that the error of each gradient of a right implementation can
    have.
    """
    c = _rounding(dtype)
    arriving = one(tuple(map(c.enter, upstream)))
    return _norms(operator.backward(c, sizes, arriving, *_enter(c, inputs)), dtype)


@dataclass(frozen=True)
class Due:
    """Required value of an output or a gradient.

    Attributes:
        value: In more bits than the dtype has.
        error: How far each element of a right result can be off, float64.
    """

    value: Any
    error: Any


def due(operator: Operator, sizes: Sizes, inputs: Arrays, dtype: str) -> tuple[Due, ...]:
    """Return the outputs, element by element; see `likely`."""
    c = PerElement(*_arithmetic(dtype))
    rounded = several(operator.forward(c, sizes, *_enter(c, inputs)))
    if ARITHMETIC[dtype].wider == "float64":
        values = tuple(result.value for result in rounded)
    else:
        values = reference(operator, sizes, inputs, dtype)
    return _pair(values, rounded)


def due_gradients(
    operator: Operator, sizes: Sizes, inputs: Arrays, upstream: Arrays, dtype: str
) -> tuple[Due, ...]:
    """Return the gradients, element by element; see `likely`."""
    c = PerElement(*_arithmetic(dtype))
    arriving = one(tuple(map(c.enter, upstream)))
    rounded = operator.backward(c, sizes, arriving, *_enter(c, inputs))
    if ARITHMETIC[dtype].wider == "float64":
        values = tuple(result.value for result in rounded)
    else:
        values = reference_gradients(operator, sizes, inputs, upstream, dtype)
    return _pair(values, rounded)


def several(result: Any) -> tuple[Any, ...]:
    """Return a tuple, also of one."""
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def one(values: tuple[Any, ...]) -> Any:
    """Return the one value of a tuple, or the tuple where there are several."""
    return values[0] if len(values) == 1 else values


def round_to(array: Any, dtype: str) -> Any:
    """Reals in a dtype's word; bfloat16 in float32, to nearest, halves to even."""
    import numpy

    if hasattr(array, "round_to"):
        return array.round_to(dtype)
    stored = array.astype(ARITHMETIC[dtype].stored)
    if dtype != "bfloat16":
        return stored
    bits = stored.view(numpy.uint32)
    halves = numpy.uint32(0x7FFF) + ((bits >> numpy.uint32(16)) & numpy.uint32(1))
    return ((bits + halves) & numpy.uint32(0xFFFF0000)).view(numpy.float32)


def overflows_from(dtype: str) -> Any:
    """Return the least size that rounding makes infinite: half a step above the largest number."""
    import numpy

    arithmetic = ARITHMETIC[dtype]
    with numpy.errstate(over="ignore"):
        share = 1 - numpy.longdouble(arithmetic.storage) / 2
        limit = numpy.ldexp(share, numpy.finfo(arithmetic.stored).maxexp)
    return float(limit) if arithmetic.wider == "float64" else limit


def _rounding(dtype: str) -> Rounding:
    return Rounding(*_arithmetic(dtype))


def _arithmetic(dtype: str) -> tuple[Arithmetic, float]:
    """Return the arithmetic of a dtype, with the reference's own roundings."""
    import numpy

    arithmetic = ARITHMETIC[dtype]
    return arithmetic, float(numpy.finfo(arithmetic.wider).eps) / 2


def _pair(values: Arrays, rounded: tuple[Any, ...]) -> tuple[Due, ...]:
    if not all(isinstance(result, Rounded) for result in rounded):
        raise TypeError(
            "a formula returned a value without its error bound: use only operations of its"
            " arguments"
        )
    return tuple(Due(value, result.error) for value, result in zip(values, rounded))


def _enter(c: Rounding, inputs: Arrays) -> list[Any]:
    return [c.enter(array) if array.dtype.kind == "f" else array for array in inputs]


def _norms(results: tuple[Any, ...], dtype: str) -> tuple[float, ...]:
    """Return the norms of errors, without those of overflows, which must be infinite."""
    import numpy

    if not all(isinstance(result, Rounded) for result in results):
        raise TypeError(
            "a formula returned a value without its error bound: use only operations of its"
            " arguments"
        )
    norms, limit = [], overflows_from(dtype)
    for result in results:
        with numpy.errstate(invalid="ignore"):
            stays = abs(result.value) - result.error < limit
        error = result.error if stays.all() else numpy.where(stays, result.error, 0.0)
        # scaled, for the square of the smallest float64 would be 0
        largest = error.max() or 1.0
        norms.append(float(largest * numpy.linalg.norm((error / largest).ravel())))
    return tuple(norms)


def _widen(arrays: Arrays, dtype: str) -> Arrays:
    wider = ARITHMETIC[dtype].wider
    return tuple(array.astype(wider) if array.dtype.kind == "f" else array for array in arrays)


def _array(operator: str, name: str, tensor: Tensor, dtype: str, seed: int) -> NDArray[Any]:
    count = prod(tensor.shape)
    label = f"capsule-input-1\n{operator}\n{name}\n{tensor.shape}\n{dtype}\n{seed}\n"
    if tensor.below is not None:
        whole: NDArray[Any] = (words(label, count) >> 11) % tensor.below
        numbers = round_to(whole, dtype) if tensor.real else whole.astype(tensor.stored)
        return numbers.reshape(tensor.shape)
    values: NDArray[Any] = spread(label, count, ARITHMETIC[dtype].bits)
    # a user's range may hold numbers that the dtype does not
    values = round_to(values * tensor.scale + tensor.offset, dtype)
    return values.reshape(tensor.shape)


def _reach_ends(array: NDArray[Any], tensor: Tensor, dtype: str) -> None:
    """Put the ends of what may be drawn at the ends of an array."""
    import numpy

    if array.size < 4:
        return
    flat = array.reshape(-1)
    if tensor.below is not None:
        ends = numpy.array([0, tensor.below - 1]).astype(array.dtype)
        flat[:2], flat[-2:] = ends[0], ends[1]
        return
    step = 2.0 ** -ARITHMETIC[dtype].bits
    ends = numpy.array([step, 1 - step]) * tensor.scale + tensor.offset
    flat[[0, -1]] = round_to(ends, dtype)
