"""Level 0 in torch: for each operator its native function and operands."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, reduce
from typing import Any, Callable

import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from ...operators import Operator
from ...operators.normalization import EPSILON
from ..base import Call, NativeTensor, look_up, require
from . import modern

Sizes = Mapping[str, int]
Compile = Callable[[Callable[..., Any]], Callable[..., Any]]

_ATTENTION = ("attention", "grouped_attention")
_KERNELS = {"flash": "flash", "cudnn": "cuDNN", "efficient": "memory-efficient"}


class TorchOperators:
    """torch's own functions, or those that a user's file brings."""

    def __init__(self, compiler: Compile | None = None) -> None:
        """Choose how they run.

        Args:
            compiler: Makes a faster function of each; None runs them as they are.
        """
        self._compiler = compiler

    def operation(
        self, operator: Operator, sizes: Sizes, tensors: tuple[NativeTensor, ...]
    ) -> Call:
        """Return the function and its operands; what is compiled, is compiled already."""
        function, operands = _choose(operator)(sizes, *tensors)
        if self._compiler is None:
            return function, operands
        compiled = self._compiler(function)
        compiled(*operands)
        return compiled, operands

    def gradient(
        self,
        operator: Operator,
        sizes: Sizes,
        tensors: tuple[NativeTensor, ...],
        wrt: tuple[int, ...],
        upstream: tuple[NativeTensor, ...],
    ) -> Call:
        """`torch.autograd.grad` over the graph of one forward run, compiled with it if that is."""
        leaves = [
            tensor.detach().clone().requires_grad_(place in wrt)
            for place, tensor in enumerate(tensors)
        ]
        function, operands = _choose(operator)(sizes, *leaves)
        results = (self._compiler(function) if self._compiler else function)(*operands)
        results = results if isinstance(results, tuple) else (results,)
        by = [leaves[place] for place in wrt]

        def backward() -> tuple[NativeTensor, ...]:
            gradients: tuple[NativeTensor, ...] = torch.autograd.grad(
                results, by, upstream, retain_graph=True
            )
            return gradients

        if self._compiler:
            backward()
        return backward, ()

    def kernels(
        self, operator: Operator, sizes: Sizes, tensors: tuple[NativeTensor, ...]
    ) -> str | None:
        """Return the kernel of attention to which `scaled_dot_product_attention` dispatches.

        What a compiler makes of it is none of torch's own.
        """
        if self._compiler or operator.natives is not None or operator.name not in _ATTENTION:
            return None
        words = []
        for differentiated in (False, True):
            leaves = [
                tensor.detach().requires_grad_(differentiated and tensor.is_floating_point())
                for tensor in tensors
            ]
            function, operands = _choose(operator)(sizes, *leaves)
            with _Dispatched() as dispatched:
                function(*operands)
            words.append(dispatched.name_kernel())
        alone, with_gradients = words
        return alone if alone == with_gradients else f"{alone}, with gradients {with_gradients}"


class _Dispatched(TorchDispatchMode):  # type: ignore[misc]
    """The functions that calls end in."""

    def __init__(self) -> None:
        super().__init__()
        self._names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._names.append(func.name())
        return func(*args, **(kwargs or {}))

    def name_kernel(self) -> str:
        """Return the kernel of attention; none of its own is `math`, products and a softmax."""
        for name in self._names:
            if "scaled_dot_product" in name:
                kinds = (kind for word, kind in _KERNELS.items() if word in name)
                return f"{next(kinds, 'another kernel')} ({name})"
        return "math (products and softmax one after the other)"


def _choose(operator: Operator) -> Callable[..., Call]:
    if operator.natives is None:
        return look_up(OPERATIONS, operator, "torch")
    return require(operator.natives.get("torch"), operator.name, "define a function torch")


def _gemm(sizes: Sizes, a: Any, b: Any, bias: Any = None) -> Call:
    a, b = a.t() if sizes["ta"] else a, b.t() if sizes["tb"] else b
    return (torch.mm, (a, b)) if bias is None else (torch.addmm, (bias, a, b))


def _conv(function: Callable[..., Any]) -> Callable[..., Call]:
    def call(sizes: Sizes, x: Any, w: Any, bias: Any = None) -> Call:
        how = tuple(sizes[name] for name in ("stride", "padding", "dilation", "groups"))
        return function, (x, w, bias, *how)

    return call


def _conv_transpose(function: Callable[..., Any]) -> Callable[..., Call]:
    def call(sizes: Sizes, x: Any, w: Any, bias: Any = None) -> Call:
        names = ("stride", "padding", "output_padding", "groups", "dilation")
        return function, (x, w, bias, *(sizes[name] for name in names))

    return call


def _plain(function: Callable[..., Any]) -> Callable[..., Call]:
    return lambda sizes, *tensors: (function, tensors)  # noqa: ARG005


def _gelu(sizes: Sizes, x: Any) -> Call:
    form = "tanh" if sizes["approximate"] else "none"
    return partial(functional.gelu, approximate=form), (x,)


def _leaky_relu(sizes: Sizes, x: Any) -> Call:
    return functional.leaky_relu, (x, sizes["percent"] / 100)


def _max_pool(sizes: Sizes, x: Any) -> Call:
    return functional.max_pool2d, (x, *_window(sizes))


def _max_pool3d(sizes: Sizes, x: Any) -> Call:
    window = (sizes["q"], sizes["r"], sizes["s"])
    return functional.max_pool3d, (x, window, sizes["stride"], sizes["padding"])


def _average_pool(sizes: Sizes, x: Any) -> Call:
    return functional.avg_pool2d, (x, *_window(sizes), False, False)


def _window(sizes: Sizes) -> tuple[Any, ...]:
    return (sizes["r"], sizes["s"]), sizes["stride"], sizes["padding"]


def _batch_norm(sizes: Sizes, x: Any, w: Any, b: Any) -> Call:  # noqa: ARG001
    return functional.batch_norm, (x, None, None, w, b, True, 0.0, EPSILON)


def _batch_norm_inference(sizes: Sizes, x: Any, w: Any, b: Any, mean: Any, variance: Any) -> Call:  # noqa: ARG001
    return functional.batch_norm, (x, mean, variance, w, b, False, 0.0, EPSILON)


def _layer_norm(sizes: Sizes, x: Any, w: Any, b: Any) -> Call:
    return functional.layer_norm, (x, (sizes["columns"],), w, b, EPSILON)


def _group_norm(sizes: Sizes, x: Any, w: Any, b: Any) -> Call:
    return functional.group_norm, (x, sizes["groups"], w, b, EPSILON)


def _cross_entropy(sizes: Sizes, p: Any, labels: Any) -> Call:  # noqa: ARG001
    return (lambda p, labels: functional.nll_loss(torch.log(p), labels)), (p, labels)


def _softmax_cross_entropy(sizes: Sizes, x: Any, labels: Any, weights: Any = None) -> Call:  # noqa: ARG001
    if weights is None:
        return functional.cross_entropy, (x, labels)
    return _weighted_loss, (x, labels, weights)


def _weighted_loss(x: Any, labels: Any, weights: Any) -> Any:
    # the built-in mean would divide by the sum of weights
    return functional.cross_entropy(x, labels, weights, reduction="none").mean()


def _attention(sizes: Sizes, q: Any, k: Any, v: Any) -> Call:
    causal = bool(sizes["causal"])
    return partial(functional.scaled_dot_product_attention, is_causal=causal), (q, k, v)


def _lstm_cell(sizes: Sizes, x: Any, h: Any, c: Any, *weights: Any) -> Call:  # noqa: ARG001
    return torch.lstm_cell, (x, (h, c), *weights)


def _dropout(sizes: Sizes, x: Any, mask: Any) -> Call:
    scale = 1 / (1 - sizes["percent"] / 100)
    return (lambda x, mask: x * mask * scale), (x, mask)


def _sum(sizes: Sizes, *tensors: Any) -> Call:  # noqa: ARG001
    return (torch.add, tensors) if len(tensors) == 2 else (partial(reduce, torch.add), (tensors,))


def _reshape(sizes: Sizes, x: Any) -> Call:
    return torch.reshape, (x, (sizes["n"], -1))


def _along(function: Callable[..., Any]) -> Callable[..., Call]:
    return lambda sizes, x: (function, (x, 1))  # noqa: ARG005


OPERATIONS: dict[str, Callable[..., Call]] = {
    "gemm": _gemm,
    "matmul": _plain(torch.matmul),
    "conv1d": _conv(functional.conv1d),
    "conv2d": _conv(functional.conv2d),
    "conv3d": _conv(functional.conv3d),
    "conv_transpose1d": _conv_transpose(functional.conv_transpose1d),
    "conv_transpose2d": _conv_transpose(functional.conv_transpose2d),
    "conv_transpose3d": _conv_transpose(functional.conv_transpose3d),
    "max_pool2d": _max_pool,
    "max_pool3d": _max_pool3d,
    "average_pool2d": _average_pool,
    "global_average_pool": lambda sizes, x: (functional.adaptive_avg_pool2d, (x, 1)),  # noqa: ARG005
    "batch_norm": _batch_norm,
    "batch_norm_inference": _batch_norm_inference,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "relu": _plain(torch.relu),
    "leaky_relu": _leaky_relu,
    "sigmoid": _plain(torch.sigmoid),
    "tanh": _plain(torch.tanh),
    "gelu": _gelu,
    "softmax": _along(torch.softmax),
    "cross_entropy": _cross_entropy,
    "softmax_cross_entropy": _softmax_cross_entropy,
    "sigmoid_cross_entropy": _plain(functional.binary_cross_entropy_with_logits),
    "mean_squared_error": _plain(functional.mse_loss),
    "attention": _attention,
    "embedding": lambda sizes, table, index: (functional.embedding, (index, table)),  # noqa: ARG005
    "lstm_cell": _lstm_cell,
    "dropout": _dropout,
    "add": _plain(torch.add),
    "sum": _sum,
    "reduce_sum": _along(torch.sum),
    "reduce_mean": _along(torch.mean),
    "reduce_max": _along(torch.amax),
    "reshape": _reshape,
    "squeeze": _along(torch.squeeze),
    "unsqueeze": _along(torch.unsqueeze),
    **modern.OPERATIONS,
}
