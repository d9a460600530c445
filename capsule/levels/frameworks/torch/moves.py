"""Reference of a `torch.nn.Module`, and the largest error of a correct result.

The reference is the module itself in float64. The bounds are those of `graphs.bounds`, had from
torch's own dispatcher, where every operation of a module passes by: of each the largest right error
for the exact values that it reads, in a first run; then `RUNS` runs in which each operation's
result is moved by that, up or down by random bits. Of an operation nothing is known but its
result y, how many numbers n one of y is summed from, and by how much (q) y moves when each number
that it reads is moved by its own size; its error is then, in the words of `graphs.bounds`,

    L sqrt(n) a (|y| + q) + 8 a |y| + u |y| + t

and beside it, of some operations what their kernels are known to lose, as at Level 0:

    gradients that a batch normalization sums up    see `Rounding.total_by_halves`
    gelu and erf in float32 and less                see `rounding.erf_error`
    layers of an LSTM, whose p steps go through     L sqrt(p) u (|y| + q)
    memory in the dtype
    sums in 16 bits that go through memory p times: L sqrt(p) u (|y| + q)
    gradients of a layer normalization and an
    embedding, `nll_loss`
    `log_softmax` in 16 bits                        u (1 + |log s|), as the sum s of exponentials
                                                    and its logarithm are stored in the dtype
    what torch computes in 16 bits by k others      (k - 1) u (|y| + q), see `_STEPS`

For `nll_loss` and `log_softmax` see nll_loss_out_frame in aten/src/ATen/native/LossNLL.cpp and
vec_log_softmax_lastdim in native/cpu/LogSoftmaxKernelImpl.h. Level 0 does not measure these two in
16 bits (`catalog.frameworks`), but a module has its loss.

Operations that only choose, move or compare have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from math import prod
from typing import Any, Callable, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from ...graphs.bounds import MARGIN, RUNS
from ...operators import ARITHMETIC
from ...operators.likely import TRUNCATED
from ...operators.rounding import EXCHANGES, FUNCTION_ULPS, LIKELY, SINGLE, erf_error
from ...streams import signs
from ..base import NativeTensor
from . import drawing, fused

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


class Run(Protocol):
    """Computes what is judged, by a module in float64 that nothing else has run yet."""

    def __call__(self, module: torch.nn.Module, /) -> tuple[NativeTensor, ...]:
        """Return the results."""


def right(
    module: torch.nn.Module, inputs: tuple[NativeTensor, ...], dtype: str, label: str
) -> tuple[tuple[Any, ...], tuple[float, ...]]:
    """Return the outputs in float64, numpy arrays, and the largest right L2 norm of the error of
    each.

    Args:
        module: With weights of the dtype.
        inputs: Tensors that it takes.
        dtype: A key of `ARITHMETIC` whose reference is float64.
        label: Names the random bits.

    Raises:
        ValueError: The module draws random numbers, or decides by its data which operations it
            runs.
    """
    operands = tuple(map(widen, inputs))

    def run(wide: torch.nn.Module) -> tuple[NativeTensor, ...]:
        with torch.no_grad():
            return outputs(wide(*operands))

    return judge(module, run, dtype, label)


def judge(
    module: torch.nn.Module, run: Run, dtype: str, label: str, draws: str | None = None
) -> tuple[tuple[Any, ...], tuple[float, ...]]:
    """Compute a module's run in float64, with bounds; see `right`.

    Args:
        module: With weights of the dtype; it stays as it is.
        run: Gets a copy in float64 each time.
        dtype: See `right`.
        label: Likewise.
        draws: Names what random operations draw; None where there must be none.

    Raises:
        ValueError: See `right`.
    """
    if ARITHMETIC[dtype].wider != "float64":
        fit = ", ".join(name for name, one in ARITHMETIC.items() if one.wider == "float64")
        raise ValueError(
            f"torch has no type with more bits than {dtype} for a reference: use one of {fit}"
        )
    first = _Local(dtype, label, draws)
    exact = _run(module, run, first)
    squares = [0.0] * len(exact)
    for number in range(RUNS):
        label_of_pair = f"{label}\n{number // 2}\n"
        moves = _Moved(first.errors, label_of_pair, draws, opposite=number % 2 == 1)
        moved = _run(module, run, moves)
        if moves.count != len(first.errors):
            raise ValueError(
                f"the module runs {len(first.errors)} operations, but {moves.count} on data with"
                " rounding errors: capsule cannot bound the errors of a module whose operations"
                " depend on its data"
            )
        for place, (one, other) in enumerate(zip(moved, exact)):
            squares[place] += float(((one - other) ** 2).sum()) / RUNS
    arrays = tuple(one.cpu().numpy() for one in exact)
    return arrays, tuple(MARGIN * square**0.5 for square in squares)


def widen(tensor: NativeTensor) -> NativeTensor:
    """Return the same numbers in float64; whole ones as they are."""
    return tensor.double() if tensor.is_floating_point() else tensor


def outputs(results: Any) -> tuple[NativeTensor, ...]:
    """Return the tensors that a module yields, in order.

    Raises:
        ValueError: It yields something else.
    """
    if isinstance(results, torch.Tensor):
        return (results,)
    values = tuple(results.values()) if isinstance(results, Mapping) else results
    if not isinstance(values, (tuple, list)) or not all(
        isinstance(one, torch.Tensor) for one in values
    ):
        raise ValueError(
            f"the module returns a {type(results).__name__}, expected a tensor, or a tuple, list or"
            " dictionary of tensors"
        )
    return tuple(values)


def _run(module: torch.nn.Module, run: Run, mode: TorchDispatchMode) -> tuple[NativeTensor, ...]:
    wide = deepcopy(module).double()
    with mode:
        results = run(wide)
    return tuple(one.detach().double() for one in results)


class Limits:
    """Error limits of an operation's results, for the inputs it reads."""

    def __init__(self, dtype: str, label: str, pairs: int = _PAIRS) -> None:
        """Create limits by the rules of the module.

        Args:
            dtype: A key of `ARITHMETIC`.
            label: Names the random bits.
            pairs: Pairs of moved calls, which show how far results move.
        """
        self._arithmetic = ARITHMETIC[dtype]
        self._label = label
        self._pairs = pairs

    def find(
        self, function: Any, args: Any, kwargs: Any
    ) -> tuple[list[NativeTensor], list[NativeTensor | None]]:
        """Return an operation's results in float64, and the bound of each element.

        Bounds are None of what is not real. The operands stay as they are.
        """
        name = _name(function)
        run = fused.REFERENCES.get(name, function)
        plain = tensors(run(*_copies(args), **_copies(kwargs)))
        walks = self._walks(plain, run, args, kwargs)
        sums, passes = _terms(name, args, walks)
        errors = []
        for value, walk in zip(plain, walks):
            error = None
            if walk is not None:
                error = self._error(value, walk, sums, passes)
                error = error + self._lose(name, args, kwargs, value, walk)
                error = torch.where(torch.isfinite(value), error, 0.0)
            errors.append(error)
        return plain, errors

    def _error(self, value: NativeTensor, walk: NativeTensor, sums: int, passes: int) -> Any:
        inside, storage = self._arithmetic.inside, self._arithmetic.storage
        additions = sums if inside == TRUNCATED else LIKELY * sums**0.5
        share = (additions + LIKELY * self._arithmetic.operand / inside) * inside
        share += LIKELY * passes**0.5 * storage
        size = value.abs()
        functions = (2 * FUNCTION_ULPS * inside + storage) * size
        return share * (size + walk) + functions + self._arithmetic.tiny

    def _lose(
        self, name: str, args: Any, kwargs: Any, value: NativeTensor, walk: NativeTensor
    ) -> Any:
        """Return what an operation's kernels lose beside; see the module."""
        storage, inside = self._arithmetic.storage, self._arithmetic.inside
        if name.removesuffix("_") in _BY_ERF and inside >= SINGLE:
            return _lose_by_erf(name, args, kwargs)
        if storage <= inside:
            return torch.zeros_like(value)
        if name.endswith("batch_norm_backward") and value.dim() == 1:
            squares = value**2 / 2 + (EXCHANGES / 2 + 1) * walk**2
            return LIKELY * storage * squares.sqrt()
        if name == "_log_softmax":
            x, axis = args[:2]
            return storage * (1 + (x - x.amax(axis, keepdim=True) - value).abs())
        passes = _stored_sums(name, args, value)
        times = LIKELY * passes**0.5 + _STEPS.get(name, 1) - 1
        return times * storage * (value.abs() + walk)

    def _walks(
        self, plain: list[NativeTensor], function: Any, args: Any, kwargs: Any
    ) -> list[NativeTensor | None]:
        """Return how far each result moves, in the root mean square; None if not real."""
        squares: list[Any] = [
            torch.zeros_like(one) if one.is_floating_point() else None for one in plain
        ]
        for number in range(2 * self._pairs):
            step = _Step(f"{self._label}\nwalk\n{number // 2}\n", 1 - 2 * (number % 2))
            moved = function(*_copies(args, step), **_copies(kwargs, step))
            for place, (one, other) in enumerate(zip(tensors(moved), plain)):
                if squares[place] is not None:
                    away = torch.nan_to_num((one - other) / _MOVE, 0.0, 0.0, 0.0)
                    squares[place] += away**2 / (2 * self._pairs)
        return [None if one is None else one.sqrt() for one in squares]


class _Local(TorchDispatchMode):  # type: ignore[misc]
    """Keeps the error bound of the results of each operation, in order.

    Attributes:
        errors: For each operation the bound of each of its results, None where that is exact.
    """

    def __init__(self, dtype: str, label: str, draws: str | None) -> None:
        super().__init__()
        self._limits = Limits(dtype, label)
        self._draws = drawing.Draws(draws)
        self.errors: list[tuple[Any, ...]] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if drawing.is_random(function, args, kwargs):
            self.errors.append((None,))
            return self._draws(function, args, kwargs)
        if is_exact(function):
            result = function(*args, **kwargs)
            self.errors.append((None,) * len(tensors(result)))
            return result
        _, errors = self._limits.find(function, args, kwargs)
        self.errors.append(tuple(errors))
        return function(*args, **kwargs)


class _Moved(TorchDispatchMode):  # type: ignore[misc]
    """Moves the results of each operation by their bounds.

    Attributes:
        count: Operations so far.
    """

    def __init__(
        self,
        errors: list[tuple[Any, ...]],
        label: str,
        draws: str | None,
        *,
        opposite: bool,
    ) -> None:
        super().__init__()
        self._errors = errors
        self._label = label
        self._draws = drawing.Draws(draws)
        self._sign = -1 if opposite else 1
        self.count = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        here = self.count
        self.count += 1
        if drawing.is_random(function, args, kwargs):
            return self._draws(function, args, kwargs)
        result = function(*args, **kwargs)
        errors = self._errors[here] if here < len(self._errors) else ()
        for place, (value, error) in enumerate(zip(tensors(result), errors)):
            if error is None:
                continue
            if error.shape != value.shape:
                raise ValueError(
                    f"{function} returns the shape {tuple(error.shape)}, but {tuple(value.shape)}"
                    " on data with rounding errors: capsule cannot bound the errors of a module"
                    " whose operations depend on its data"
                )
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


def tensors(result: Any) -> list[NativeTensor]:
    """Return the tensors that an operation of the dispatcher returns, in order."""
    values = result if isinstance(result, (tuple, list)) else [result]
    return [one for one in values if isinstance(one, torch.Tensor)]


def is_view(function: Any) -> bool:
    """Return whether an operation only looks at its operand in another way."""
    return any(
        one.alias_info is not None and not one.alias_info.is_write
        for one in function._schema.returns
    )


def is_exact(function: Any) -> bool:
    """Return whether an operation computes nothing."""
    return is_view(function) or _name(function) in _EXACT


def _name(function: Any) -> str:
    """Return the name of an operation of the dispatcher, without its library."""
    name: str = function._schema.name.rpartition("::")[2]
    return name


_STEPS: Mapping[str, int] = {
    **dict.fromkeys(("sigmoid_backward", "mse_loss"), 3),
    **dict.fromkeys(("mse_loss_backward", "huber_loss", "huber_loss_backward"), 4),
    **dict.fromkeys(("smooth_l1_loss", "smooth_l1_loss_backward"), 4),
    **dict.fromkeys(("binary_cross_entropy", "binary_cross_entropy_with_logits", "logsumexp"), 5),
    "binary_cross_entropy_backward": 6,
}
"""Numbers of operations, each rounded to the dtype, that torch makes these of in 16 bits: some for
the last elements of its vectors alone, as `g * (1 - y) * y` of a sigmoid's gradient."""


def _stored_sums(name: str, args: Any, value: NativeTensor) -> int:
    """Return how often partial sums of a result go through memory in 16 bits."""
    if name == "native_layer_norm_backward":
        # the gradients by weight and bias, over all rows
        return 0 if value.shape == args[1].shape else args[1].numel() // value.numel()
    if name == "embedding_dense_backward":
        return int(torch.bincount(args[1].reshape(-1)).max())
    if name in ("nll_loss_forward", "nll_loss2d_forward"):
        return int(args[1].numel())
    return 0


_BY_ERF = ("erf", "gelu", "gelu_backward")


def _lose_by_erf(name: str, args: Any, kwargs: Any) -> Any:
    """Return the error of an operation by that of the error function in it."""
    x = args[1] if name == "gelu_backward" else args[0]
    if name.startswith("erf"):
        return erf_error(torch.erf(x).abs())
    if kwargs.get("approximate", "none") != "none":
        return torch.zeros_like(x)
    times = args[0] if name == "gelu_backward" else x
    return times.abs() / 2 * erf_error(torch.erf(x * 0.5**0.5).abs())


_GATHERED = ("embedding_dense_backward", "index_add", "index_put_", "_index_put", "scatter_add")
"""Operations that may add up all that they read in one place."""

_CONTRACTED = {"mm": (0, -1), "bmm": (0, -1), "addmm": (1, -1), "baddbmm": (1, -1)}


def _terms(name: str, args: Any, walks: list[NativeTensor | None]) -> tuple[int, int]:
    """Return the largest number of terms in a sum of the results, and how often partial sums go
    through memory in the dtype.
    """
    if name in fused.REFERENCES:
        return fused.count(name, args)
    return _sum_terms(name, args, walks), 0


def _sum_terms(name: str, args: Any, walks: list[NativeTensor | None]) -> int:
    if name in _CONTRACTED:
        place, axis = _CONTRACTED[name]
        return int(args[place].shape[axis])
    read = [one for one in args if isinstance(one, torch.Tensor)]
    if name.startswith("convolution_backward"):
        upstream, inputs, weight = read[:3]
        # over a window of all channels, or over all places of all examples
        window = weight.numel() // min(weight.shape[:2])
        return int(max(window, *(one.numel() // one.shape[1] for one in (upstream, inputs))))
    if name.startswith("convolution"):
        return prod(args[1].shape[1:])
    if name.startswith("_scaled_dot_product"):
        # over keys and a head's width; backward, over queries too
        query, key = args[1:3] if name.endswith("backward") else (args[1], args[1])
        return int(key.shape[-1] + max(query.shape[-2], key.shape[-2]))
    largest = int(max((one.numel() for one in read), default=1))
    if name.startswith(_GATHERED):
        return largest
    sizes = [one.numel() for one in walks if one is not None and one.numel()]
    shared = max(1, largest // min(sizes, default=1))
    if "norm" in name or "softmax" in name:
        return max(shared, int(prod(read[0].shape[1:])))
    return shared
