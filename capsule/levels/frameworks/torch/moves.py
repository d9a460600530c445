"""What a `torch.nn.Module` has to yield, and how far a right one can be off.

The reference is the module itself in float64. The bounds are those of `graphs.bounds`, had from
torch's own dispatcher, where every operation of a module passes by: of each the largest right error
for the exact values that it reads, in a first run; then `RUNS` runs in which each operation's
result is moved by that, up or down by random bits. Of an operation nothing is known but its
result y, how many numbers n one of y is summed from, and by how much (q) y moves when each number
that it reads is moved by its own size; its error is then, in the words of `graphs.bounds`,

    L sqrt(n) a (|y| + q) + 8 a |y| + u |y| + t

Operations that only choose, move or compare have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from math import prod
from typing import Any, Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from ...graphs.bounds import MARGIN, RUNS
from ...operators import ARITHMETIC
from ...operators.likely import LIKELY, TRUNCATED
from ...operators.rounding import FUNCTION_ULPS
from ...streams import signs
from ..base import NativeTensor

_MOVE = 2.0**-20
_PAIRS = 2

_EXACT = frozenset(
    (
        *("_to_copy", "abs", "alias", "amax", "amin", "arange", "argmax", "argmin"),
        *("as_strided", "bitwise_and", "bitwise_not", "bitwise_or", "cat", "ceil", "clamp"),
        *("clamp_max", "clamp_min", "clone", "constant_pad_nd", "copy", "copy_", "detach"),
        *("embedding", "empty", "empty_like", "eq", "expand", "fill", "fill_", "flip"),
        *("floor", "full", "full_like", "gather", "ge", "gt", "hardtanh", "hardtanh_"),
        *("index", "index_put", "index_select", "isinf", "isnan", "le", "lift_fresh"),
        *("logical_and", "logical_not", "logical_or", "lt", "masked_fill", "masked_fill_"),
        *("max", "max_pool2d_with_indices", "max_pool3d_with_indices", "maximum", "min"),
        *("minimum", "ne", "neg", "new_empty", "new_full", "new_ones", "new_zeros"),
        *("nonzero", "ones", "ones_like", "permute", "pixel_shuffle", "relu", "relu_"),
        *("repeat", "roll", "round", "scalar_tensor", "scatter", "select", "sign", "slice"),
        *("sort", "split", "split_with_sizes", "squeeze", "stack", "t", "topk", "transpose"),
        *("tril", "triu", "unbind", "unfold", "unsqueeze", "upsample_nearest2d", "view"),
        *("where", "zero_", "zeros", "zeros_like"),
    )
)
"""Operations whose right results are exactly what is due of their inputs."""


def right(
    module: torch.nn.Module, inputs: tuple[NativeTensor, ...], dtype: str, label: str
) -> tuple[tuple[Any, ...], tuple[float, ...]]:
    """The outputs in float64, numpy arrays, and the largest right L2 norm of the error of each.

    Args:
        module: With weights of the dtype.
        inputs: Tensors that it takes.
        dtype: A key of `ARITHMETIC` whose reference is float64.
        label: Names the random bits.

    Raises:
        ValueError: The module draws random numbers, or decides by its data which operations it
            runs.
    """
    if ARITHMETIC[dtype].wider != "float64":
        raise ValueError(f"torch has no type with more bits than {dtype}: there is no reference")
    wide = deepcopy(module).double()
    operands = tuple(one.double() if one.is_floating_point() else one for one in inputs)
    first = _Local(dtype, label)
    exact = _run(wide, operands, first)
    squares = [0.0] * len(exact)
    for number in range(RUNS):
        moves = _Moved(first.errors, f"{label}\n{number // 2}\n", opposite=number % 2 == 1)
        moved = _run(wide, operands, moves)
        if moves.count != len(first.errors):
            raise ValueError("the module decides by its data which operations it runs")
        for place, (one, other) in enumerate(zip(moved, exact)):
            squares[place] += float(((one - other) ** 2).sum()) / RUNS
    arrays = tuple(one.cpu().numpy() for one in exact)
    return arrays, tuple(MARGIN * square**0.5 for square in squares)


def outputs(results: Any) -> tuple[NativeTensor, ...]:
    """The tensors that a module yields, in order.

    Raises:
        ValueError: It yields something else.
    """
    if isinstance(results, torch.Tensor):
        return (results,)
    values = tuple(results.values()) if isinstance(results, Mapping) else results
    if not isinstance(values, (tuple, list)) or not all(
        isinstance(one, torch.Tensor) for one in values
    ):
        raise ValueError(f"the module yields a {type(results).__name__}, not tensors")
    return tuple(values)


def _run(
    module: torch.nn.Module, inputs: tuple[NativeTensor, ...], mode: TorchDispatchMode
) -> tuple[NativeTensor, ...]:
    with torch.no_grad(), mode:
        results = outputs(module(*inputs))
    return tuple(one.double() for one in results)


class _Local(TorchDispatchMode):  # type: ignore[misc]
    """Keeps the error bound of the results of each operation, in order.

    Attributes:
        errors: For each operation the bound of each of its results, None where that is exact.
    """

    def __init__(self, dtype: str, label: str) -> None:
        super().__init__()
        self._arithmetic = ARITHMETIC[dtype]
        self._label = label
        self.errors: list[tuple[Any, ...]] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in function.tags:
            raise ValueError(f"the module draws random numbers, by {function}")
        if _is_exact(function):
            result = function(*args, **kwargs)
            self.errors.append((None,) * len(_tensors(result)))
            return result
        walks = self._walks(function, args, kwargs)
        sums = _terms(function, args, walks)
        result = function(*args, **kwargs)
        self.errors.append(
            tuple(
                None if walk is None else self._error(value, walk, sums)
                for value, walk in zip(_tensors(result), walks)
            )
        )
        return result

    def _error(self, value: NativeTensor, walk: NativeTensor, sums: int) -> Any:
        inside, storage = self._arithmetic.inside, self._arithmetic.storage
        additions = sums if inside == TRUNCATED else LIKELY * sums**0.5
        share = (additions + 2 * LIKELY * self._arithmetic.operand / inside) * inside
        size = value.abs()
        functions = (2 * FUNCTION_ULPS * inside + storage) * size
        error = share * (size + walk) + functions + self._arithmetic.tiny
        return torch.where(torch.isfinite(value), error, 0.0)

    def _walks(self, function: Any, args: Any, kwargs: Any) -> list[NativeTensor | None]:
        """By how much each result moves, in the root mean square; None of what is not real."""
        plain = _tensors(function(*_copies(args), **_copies(kwargs)))
        squares: list[Any] = [
            torch.zeros_like(one) if one.is_floating_point() else None for one in plain
        ]
        for number in range(2 * _PAIRS):
            step = _Step(f"{self._label}\nwalk\n{number // 2}\n", 1 - 2 * (number % 2))
            moved = function(*_copies(args, step), **_copies(kwargs, step))
            for place, (one, other) in enumerate(zip(_tensors(moved), plain)):
                if squares[place] is not None:
                    away = torch.nan_to_num((one - other) / _MOVE, 0.0, 0.0, 0.0)
                    squares[place] += away**2 / (2 * _PAIRS)
        return [None if one is None else one.sqrt() for one in squares]


class _Moved(TorchDispatchMode):  # type: ignore[misc]
    """Moves the results of each operation by their bounds.

    Attributes:
        count: Operations so far.
    """

    def __init__(self, errors: list[tuple[Any, ...]], label: str, *, opposite: bool) -> None:
        super().__init__()
        self._errors = errors
        self._label = label
        self._sign = -1 if opposite else 1
        self.count = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        here = self.count
        self.count += 1
        errors = self._errors[here] if here < len(self._errors) else ()
        for place, (value, error) in enumerate(zip(_tensors(result), errors)):
            if error is None:
                continue
            if error.shape != value.shape:
                raise ValueError("the module decides by its data which operations it runs")
            ways = torch.from_numpy(signs(f"{self._label}{here}\n{place}\n", tuple(error.shape)))
            value.add_(self._sign * error * ways.to(value.device))
        return result


class _Step:
    """Moves the numbers of tensors by a share of themselves, up or down by random bits."""

    def __init__(self, label: str, sign: int) -> None:
        self._label = label
        self._sign = sign
        self._count = 0

    def __call__(self, tensor: NativeTensor) -> NativeTensor:
        self._count += 1
        if not tensor.is_floating_point():
            return tensor.clone()
        ways = torch.from_numpy(signs(f"{self._label}{self._count}\n", tuple(tensor.shape)))
        return tensor * (1 + self._sign * _MOVE * ways.to(tensor.device))


def _copies(values: Any, copy: Callable[[NativeTensor], NativeTensor] = torch.clone) -> Any:
    return tree_map_only(torch.Tensor, copy, values)


def _tensors(result: Any) -> list[NativeTensor]:
    values = result if isinstance(result, (tuple, list)) else [result]
    return [one for one in values if isinstance(one, torch.Tensor)]


def _is_exact(function: Any) -> bool:
    """Whether an operation computes nothing; one that looks at its operand in another way, too."""
    name = function._schema.name.rpartition("::")[2]
    views = any(
        one.alias_info is not None and not one.alias_info.is_write
        for one in function._schema.returns
    )
    return views or name in _EXACT


_CONTRACTED = {"mm": (0, -1), "bmm": (0, -1), "addmm": (1, -1), "baddbmm": (1, -1)}


def _terms(function: Any, args: Any, walks: list[NativeTensor | None]) -> int:
    """Of how many numbers, at most, a number of the results is a sum."""
    name = function._schema.name.rpartition("::")[2]
    if name in _CONTRACTED:
        place, axis = _CONTRACTED[name]
        return int(args[place].shape[axis])
    if name.startswith("convolution"):
        return prod(args[1].shape[1:])
    tensors = [one for one in args if isinstance(one, torch.Tensor)]
    if name.startswith("_scaled_dot_product"):
        return int(args[1].shape[-1] + args[1].shape[-2])
    if "norm" in name or "softmax" in name:
        return prod(tensors[0].shape[1:])
    largest = max((one.numel() for one in tensors), default=1)
    smallest = min((one.numel() for one in walks if one is not None), default=1)
    return max(1, largest // max(1, smallest))
