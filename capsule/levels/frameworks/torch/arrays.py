"""Arrays on a device that numpy's functions take: formulas written in numpy run there in float64.

numpy passes a call on to an argument of another array type (NEP 13, 18 and 35), so a formula that
gets such arrays returns such arrays. numpy refuses functions that are not listed here with a
TypeError, so every formula stays on the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Callable

import numpy
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.lib.stride_tricks import sliding_window_view
from torch.nn import functional

Axes = Any
"""An axis, a tuple of axes, or None for all of them."""

_SHORT = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


class DeviceArray(NDArrayOperatorsMixin):
    """A tensor behind the interface of numpy's arrays: reals in float64, integers, booleans.

    Raises:
        TypeError: Its reals are of another dtype, so a formula has lost bits.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        if tensor.is_floating_point() and tensor.dtype != torch.float64:
            raise TypeError(f"a formula returned {tensor.dtype} on the device, expected float64")
        self.tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the lengths of the axes."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """Return the number of axes."""
        return int(self.tensor.ndim)

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return int(self.tensor.numel())

    @property
    def dtype(self) -> Any:
        """Return numpy's dtype of the elements."""
        return numpy.dtype(str(self.tensor.dtype).rpartition(".")[2])

    def __len__(self) -> int:
        return int(self.tensor.shape[0])

    def __float__(self) -> float:
        return float(self.tensor)

    def __int__(self) -> int:
        return int(self.tensor)

    def __bool__(self) -> bool:
        return bool(self.tensor)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return a copy in the host's memory."""
        array = self.tensor.cpu().numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __getitem__(self, key: Any) -> DeviceArray:
        return DeviceArray(self.tensor[self._index(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.tensor[self._index(key)] = self.lift(value).to(self.tensor.dtype)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: tuple[Any, ...] = (), **options: Any
    ) -> Any:
        if method == "at" and ufunc is numpy.add and isinstance(inputs[0], DeviceArray):
            return inputs[0].add_at(*inputs[1:])
        function = _UFUNCS.get(ufunc.__name__)
        if method != "__call__" or options or function is None:
            return NotImplemented
        result = DeviceArray(function(*map(self.lift, inputs)))
        if not out:
            return result
        if not isinstance(out[0], DeviceArray):
            return NotImplemented
        out[0].tensor.copy_(result.tensor)
        return out[0]

    def __array_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        function = _FUNCTIONS.get(func)
        return NotImplemented if function is None else function(self, *args, **kwargs)

    def lift(self, value: Any) -> torch.Tensor:
        """Return anything as a tensor on the device of this one, reals in float64.

        Raises:
            TypeError: Its reals have more bits.
        """
        return value.tensor if isinstance(value, DeviceArray) else lift(value, self.tensor.device)

    def add_at(self, key: Any, values: Any) -> None:
        """Add values at places, as often as these are named."""
        index = self._index(key)
        places = index if isinstance(index, tuple) else (index,)
        self.tensor.index_put_(places, self.lift(values).to(self.tensor.dtype), accumulate=True)

    def astype(self, dtype: Any, copy: bool = True) -> DeviceArray:  # noqa: ARG002
        """Return the elements in another dtype, or these."""
        return DeviceArray(self.tensor.to(_find_type(dtype)))

    def round_to(self, dtype: str) -> DeviceArray:
        """Return reals rounded to a dtype's word, in float64."""
        short = _SHORT.get(dtype, torch.float64)
        # what has the exponents of float32 is rounded to that first, as in the host's memory
        wide = self.tensor.float() if short == torch.bfloat16 else self.tensor
        return DeviceArray(wide.to(short).double())

    def erf(self) -> DeviceArray:
        """Return the error function."""
        return DeviceArray(torch.erf(self.tensor))

    def copy(self) -> DeviceArray:
        """Return a copy."""
        return DeviceArray(self.tensor.clone())

    def ravel(self) -> DeviceArray:
        """Return the elements along one axis."""
        return self.reshape(-1)

    def reshape(self, *shape: Any) -> DeviceArray:
        """Return the elements in another shape."""
        return DeviceArray(self.tensor.reshape(_flatten(shape)))

    def transpose(self, *axes: Any) -> DeviceArray:
        """Return the axes in another order."""
        return DeviceArray(self.tensor.permute(_flatten(axes)))

    def swapaxes(self, one: int, other: int) -> DeviceArray:
        """Return two axes in each other's place."""
        return DeviceArray(self.tensor.transpose(one, other))

    def sum(self, axis: Axes = None, keepdims: bool = False) -> DeviceArray:
        """Return sums along axes."""
        return self._reduce(torch.sum, axis, keepdims)

    def mean(self, axis: Axes = None, keepdims: bool = False) -> DeviceArray:
        """Return means along axes."""
        return self._reduce(torch.mean, axis, keepdims)

    def var(self, axis: Axes = None) -> DeviceArray:
        """Return variances along axes, over n."""
        apart = (self - self.mean(axis, keepdims=True)).tensor
        return DeviceArray(apart * apart).mean(axis)

    def max(
        self, axis: Axes = None, keepdims: bool = False, initial: float | None = None
    ) -> DeviceArray:
        """Return the largest elements along axes, NaN if any is; at least `initial`."""
        if initial is not None and not self.size:
            return DeviceArray(self.lift(initial))
        largest = self._reduce(torch.amax, axis, keepdims)
        return largest if initial is None else DeviceArray(largest.tensor.clamp(min=initial))

    def any(self) -> DeviceArray:
        """Return whether any element is not 0."""
        return DeviceArray((self.tensor != 0).any())

    def all(self) -> DeviceArray:
        """Return whether no element is 0."""
        return DeviceArray((self.tensor != 0).all())

    def argmax(self, axis: int) -> DeviceArray:
        """Return places of the largest elements along an axis."""
        return DeviceArray(self.tensor.argmax(dim=axis))

    def argsort(self, axis: int) -> DeviceArray:
        """Return places along an axis in the order of the elements."""
        return DeviceArray(self.tensor.argsort(dim=axis))

    def _reduce(
        self, function: Callable[..., torch.Tensor], axis: Axes, keepdims: bool
    ) -> DeviceArray:
        axes = tuple(range(self.ndim)) if axis is None else axis
        # torch takes no axes for all of them
        if axes == ():
            return self
        return DeviceArray(function(self.tensor, dim=axes, keepdim=keepdims))

    def _index(self, key: Any) -> Any:
        """Return what torch takes in the place of a key of numpy's.

        A slice goes backwards along the axis of its number: after no ellipsis and no new axis.
        """
        if not isinstance(key, tuple):
            return self._index_axis(key, 0)
        return tuple(self._index_axis(part, place) for place, part in enumerate(key))

    def _index_axis(self, part: Any, place: int) -> Any:
        if isinstance(part, slice) and (part.step or 1) < 0:
            part = range(*part.indices(self.shape[place]))
        if isinstance(part, (range, list)):
            part = numpy.array(part, dtype="int64")
        if not isinstance(part, (DeviceArray, numpy.ndarray)):
            return part
        index = self.lift(part)
        return index if index.dtype == torch.bool else index.long()


def lift(value: Any, device: torch.device) -> torch.Tensor:
    """Return numbers as a tensor, reals in float64.

    Args:
        value: A number, or an array in the host's memory.
        device: Where it is to lie.

    Raises:
        TypeError: Its reals have more bits.
    """
    array = numpy.asarray(value)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        raise TypeError(f"{array.dtype} has more bits than float64, the widest of the device")
    # torch refuses to share memory that is read-only or goes backwards
    tensor = torch.from_numpy(array if array.flags.carray else array.copy()).to(device)
    return tensor.double() if array.dtype.kind == "f" else tensor


def _flatten(lengths: tuple[Any, ...]) -> tuple[int, ...]:
    """Return lengths or axes that are given one by one, or as one sequence."""
    if len(lengths) == 1 and isinstance(lengths[0], Iterable):
        lengths = tuple(lengths[0])
    return tuple(map(int, lengths))


def _find_type(dtype: Any) -> torch.dtype:
    name = numpy.dtype(dtype).name
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"{name} does not exist on the device")
    return found


def _multiply_matrices(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the product, of integers by way of float64, which has all below 2**53."""
    if one.is_floating_point():
        return one @ other
    return (one.double() @ other.double()).long()


_UFUNCS: dict[str, Callable[..., torch.Tensor]] = {
    "absolute": torch.abs,
    "add": torch.add,
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or,
    "divide": torch.true_divide,
    "equal": torch.eq,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "greater": torch.gt,
    "greater_equal": torch.ge,
    "invert": torch.bitwise_not,
    "isfinite": torch.isfinite,
    "isinf": torch.isinf,
    "ldexp": torch.ldexp,
    "less": torch.lt,
    "less_equal": torch.le,
    "log": torch.log,
    "matmul": _multiply_matrices,
    "maximum": torch.maximum,
    "multiply": torch.mul,
    "negative": torch.neg,
    "not_equal": torch.ne,
    "power": torch.pow,
    "right_shift": torch.bitwise_right_shift,
    "signbit": torch.signbit,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "subtract": torch.sub,
    "tanh": torch.tanh,
    "true_divide": torch.true_divide,
}


def _asarray(like: DeviceArray, value: Any, dtype: Any = None) -> DeviceArray:
    array = DeviceArray(like.lift(value))
    return array if dtype is None else array.astype(dtype)


def _zeros(like: DeviceArray, shape: Any, dtype: Any = "float64") -> DeviceArray:
    device = like.tensor.device
    return DeviceArray(torch.zeros(_flatten((shape,)), dtype=_find_type(dtype), device=device))


def _zeros_like(_: DeviceArray, array: DeviceArray) -> DeviceArray:
    contiguous = torch.contiguous_format
    return DeviceArray(torch.zeros_like(array.tensor, memory_format=contiguous))


def _ones_like(_: DeviceArray, array: DeviceArray) -> DeviceArray:
    return DeviceArray(torch.ones_like(array.tensor))


def _where(like: DeviceArray, condition: Any, one: Any, other: Any) -> DeviceArray:
    chosen, rest = like.lift(one), like.lift(other)
    kind = torch.result_type(chosen, rest)
    return DeviceArray(torch.where(like.lift(condition).bool(), chosen.to(kind), rest.to(kind)))


def _concatenate(like: DeviceArray, arrays: Sequence[Any], axis: int = 0) -> DeviceArray:
    return DeviceArray(torch.cat([like.lift(array) for array in arrays], dim=axis))


def _take_along_axis(like: DeviceArray, array: Any, indices: Any, axis: int) -> DeviceArray:
    return DeviceArray(torch.take_along_dim(like.lift(array), like.lift(indices).long(), dim=axis))


def _put_along_axis(
    like: DeviceArray, array: DeviceArray, indices: Any, values: Any, axis: int
) -> None:
    index = like.lift(indices).long()
    source = like.lift(values).to(array.tensor.dtype).expand(index.shape)
    array.tensor.scatter_(axis, index, source)


def _pad(
    like: DeviceArray, array: Any, frame: Sequence[tuple[int, int]], constant_values: float = 0.0
) -> DeviceArray:
    # the last axis comes first
    widths = [width for pair in reversed(frame) for width in pair]
    return DeviceArray(functional.pad(like.lift(array), widths, value=float(constant_values)))


def _slide(like: DeviceArray, array: Any, spans: Sequence[int], axes: Sequence[int]) -> DeviceArray:
    tensor = like.lift(array)
    for span, axis in zip(spans, axes):
        tensor = tensor.unfold(axis, span, 1)
    return DeviceArray(tensor)


def _put(_: DeviceArray, array: DeviceArray, place: int, value: float) -> None:
    array.tensor.view(-1)[place] = value


def _result_type(_: DeviceArray, *values: Any) -> Any:
    kinds = (value.dtype if isinstance(value, DeviceArray) else value for value in values)
    return numpy.result_type(*kinds)


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    numpy.asarray: _asarray,
    numpy.broadcast_to: lambda like, array, shape: DeviceArray(
        torch.broadcast_to(like.lift(array), _flatten((shape,)))
    ),
    numpy.concatenate: _concatenate,
    numpy.einsum: lambda like, equation, *arrays: DeviceArray(
        torch.einsum(equation, *map(like.lift, arrays))
    ),
    numpy.empty: _zeros,
    numpy.isneginf: lambda like, array: DeviceArray(torch.isneginf(like.lift(array))),
    numpy.linalg.norm: lambda like, array: DeviceArray(torch.linalg.vector_norm(like.lift(array))),
    numpy.mean: lambda _, array: array.mean(),
    numpy.moveaxis: lambda like, array, source, target: DeviceArray(
        torch.movedim(like.lift(array), source, target)
    ),
    numpy.ones_like: _ones_like,
    numpy.pad: _pad,
    numpy.put: _put,
    numpy.put_along_axis: _put_along_axis,
    numpy.result_type: _result_type,
    numpy.size: lambda _, array: array.size,
    numpy.take_along_axis: _take_along_axis,
    numpy.where: _where,
    numpy.zeros: _zeros,
    numpy.zeros_like: _zeros_like,
    sliding_window_view: _slide,
}
