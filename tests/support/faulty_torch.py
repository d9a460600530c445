"""Faults planted in torch, each in another operator; copied into a torch that tests then run.

The last line of that torch's `__init__.py` imports this (see tests/test_faults_verdict.py), so it
stands for a build that is wrong: nothing of capsule's is changed.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Function = Callable[..., Tensor]


def replaces(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """A function of torch that the decorated one, which gets the right one first, stands in for."""
    right = getattr(owner, name)

    def plant(wrong: Callable[..., Any]) -> None:
        setattr(owner, name, functools.wraps(right)(functools.partial(wrong, right)))

    return plant


@replaces(torch, "mm")
def sums_in_the_dtype_of_the_operands(_right: Function, a: Tensor, b: Tensor) -> Tensor:
    total = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype)
    for k in range(a.shape[1]):
        total = total + torch.outer(a[:, k], b[k])
    return total


@replaces(torch, "addmm")
def bias_without_a_gradient(right: Function, bias: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return right(bias.detach() + 0 * bias, a, b)


@replaces(functional, "conv2d")
def convolution_instead_of_correlation(right: Function, x: Tensor, w: Tensor, *rest: Any) -> Tensor:
    return right(x, w.flip(2, 3), *rest)


@replaces(functional, "conv1d")
def gradient_through_flipped_weights(
    right: Function, x: Tensor, w: Tensor, bias: Tensor, *rest: Any
) -> Tensor:
    wrong = w.detach().flip(2) + w - w.detach()
    forward = right(x, w, bias, *rest)
    return forward.detach() + (right(x, wrong, bias, *rest) - right(x, wrong, bias, *rest).detach())


@replaces(torch, "softmax")
def wrong_axis(right: Function, x: Tensor, dim: int) -> Tensor:
    return right(x, 1 - dim)


@replaces(functional, "layer_norm")
def unbiased_variance(
    _right: Function, x: Tensor, shape: tuple[int, ...], w: Tensor, b: Tensor, epsilon: float
) -> Tensor:
    variance, mean = torch.var_mean(x, -1, keepdim=True, unbiased=True)
    return (x - mean) / torch.sqrt(variance + epsilon) * w + b


@replaces(functional, "batch_norm")
def statistics_of_each_sample(
    _right: Function,
    x: Tensor,
    _mean: Tensor,
    _variance: Tensor,
    w: Tensor,
    b: Tensor,
    _training: bool,
    _momentum: float,
    epsilon: float,
) -> Tensor:
    variance, mean = torch.var_mean(x, (2, 3), keepdim=True, unbiased=False)
    w, b = w.reshape(-1, 1, 1), b.reshape(-1, 1, 1)
    return (x - mean) / torch.sqrt(variance + epsilon) * w + b


@replaces(functional, "group_norm")
def not_a_number(right: Function, *arguments: Any) -> Tensor:
    result = right(*arguments)
    return torch.where(result == result.max(), torch.nan, result)


@replaces(functional, "cross_entropy")
def no_softmax(_right: Function, x: Tensor, labels: Tensor) -> Tensor:
    return functional.nll_loss(x, labels)


@replaces(functional, "gelu")
def approximate_form(right: Function, x: Tensor, approximate: str) -> Tensor:
    return right(x, approximate="tanh")


@replaces(torch, "sigmoid")
def half_the_gradient(right: Function, x: Tensor) -> Tensor:
    return right(0.5 * x + 0.5 * x.detach())


@replaces(functional, "embedding")
def off_by_one(right: Function, index: Tensor, table: Tensor) -> Tensor:
    return right((index + 1) % len(table), table)


@replaces(functional, "scaled_dot_product_attention")
def not_scaled(right: Function, q: Tensor, k: Tensor, v: Tensor, is_causal: bool) -> Tensor:
    return right(q, k, v, is_causal=is_causal, scale=1.0)


@replaces(torch, "lstm_cell")
def gates_in_another_order(
    right: Callable[..., tuple[Tensor, Tensor]],
    x: Tensor,
    state: tuple[Tensor, Tensor],
    wx: Tensor,
    wh: Tensor,
    bx: Tensor,
    bh: Tensor,
) -> tuple[Tensor, Tensor]:
    def moved(weights: Tensor) -> Tensor:
        i, f, g, o = weights.chunk(4)
        return torch.cat((f, i, g, o))

    return right(x, state, *map(moved, (wx, wh, bx, bh)))


@replaces(torch, "tanh")
def wrong_type(right: Function, x: Tensor) -> Tensor:
    return right(x).double()
