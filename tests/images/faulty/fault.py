"""A planted fault: every torch matrix product on the CPU is 1 % too large.

The last line of torch/__init__.py imports this, so nothing that a program does can miss it: the
product kernels themselves are replaced (functions, operators, layers and their gradients end
there), and calls with `out=`, which have kernels of their own, are caught by name.
"""

import functools
import warnings
from typing import Any

import torch
from torch import Tensor

FACTOR = 1.01


def mm(a: Tensor, b: Tensor) -> Tensor:
    out = a.new_empty((a.shape[0], b.shape[1]))
    return torch.ops.aten.mm.out(a, b, out=out).mul_(FACTOR)


def bmm(a: Tensor, b: Tensor) -> Tensor:
    out = a.new_empty((a.shape[0], a.shape[1], b.shape[2]))
    return torch.ops.aten.bmm.out(a, b, out=out).mul_(FACTOR)


def addmm(bias: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return mm(a, b).mul_(alpha).add_(bias, alpha=beta) if beta else mm(a, b).mul_(alpha)


def baddbmm(bias: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return bmm(a, b).mul_(alpha).add_(bias, alpha=beta) if beta else bmm(a, b).mul_(alpha)


def replace_out(name: str) -> None:
    right = getattr(torch, name)

    @functools.wraps(right)
    def wrong(*args: Any, out: Tensor | None = None, **options: Any) -> Tensor:
        if out is None:
            return right(*args, **options)
        return out.copy_(right(*args, **options))

    setattr(torch, name, wrong)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    library = torch.library.Library("aten", "IMPL")
    for kernel in (mm, bmm, addmm, baddbmm):
        library.impl(kernel.__name__, kernel, "CPU")
for name in ("mm", "bmm", "addmm", "baddbmm", "matmul"):
    replace_out(name)
