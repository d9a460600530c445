"""A planted fault: every torch matrix product on the CPU is 1 % too large.

The last line of torch/__init__.py imports this, so nothing that a program does can miss it: the
product kernels themselves are replaced (functions, operators, layers and their gradients end
there), and calls with `out=`, which have kernels of their own, are caught by name.
"""

import functools
import warnings

import torch

FACTOR = 1.01


def replace_kernels(library):
    @torch.library.impl(library, "mm", "CPU")
    def mm(a, b):
        out = a.new_empty((a.shape[0], b.shape[1]))
        return torch.ops.aten.mm.out(a, b, out=out).mul_(FACTOR)

    @torch.library.impl(library, "bmm", "CPU")
    def bmm(a, b):
        out = a.new_empty((a.shape[0], a.shape[1], b.shape[2]))
        return torch.ops.aten.bmm.out(a, b, out=out).mul_(FACTOR)

    @torch.library.impl(library, "addmm", "CPU")
    def addmm(bias, a, b, *, beta=1, alpha=1):
        return mm(a, b).mul_(alpha).add_(bias, alpha=beta) if beta else mm(a, b).mul_(alpha)

    @torch.library.impl(library, "baddbmm", "CPU")
    def baddbmm(bias, a, b, *, beta=1, alpha=1):
        return bmm(a, b).mul_(alpha).add_(bias, alpha=beta) if beta else bmm(a, b).mul_(alpha)


def replace_out(name):
    right = getattr(torch, name)

    @functools.wraps(right)
    def wrong(*args, out=None, **options):
        if out is None:
            return right(*args, **options)
        return out.copy_(right(*args, **options))

    setattr(torch, name, wrong)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    library = torch.library.Library("aten", "IMPL")
    replace_kernels(library)
for name in ("mm", "bmm", "addmm", "baddbmm", "matmul"):
    replace_out(name)
