"""Number of operations of a `torch.nn.Module`'s products, by any algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Callable

import torch
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from ..base import NativeTensor

_CONVOLUTIONS = (
    torch.ops.aten.convolution,
    torch.ops.aten._convolution,
    torch.ops.aten.cudnn_convolution,
    torch.ops.aten._slow_conv2d_forward,
)


def count(module: torch.nn.Module, inputs: Mapping[str, NativeTensor]) -> float:
    """FLOPs of the products and convolutions of one run, without gradients.

    By torch's own formulas; of a convolution's window one product for each result, for transforms
    leave as few, and none of what is of another type than the module, which may be many times as
    fast.

    Args:
        module: In the mode in which it runs.
        inputs: In its order.
    """
    dtype = next((one.dtype for one in module.parameters() if one.is_floating_point()), None)
    formulas = {
        packet: _limit(formula, dtype, windows=packet in _CONVOLUTIONS)
        for packet, formula in flop_registry.items()
        if isinstance(packet, torch._ops.OpOverloadPacket)
    }
    counter = FlopCounterMode(display=False, custom_mapping=formulas)
    with torch.no_grad(), counter:
        module(*inputs.values())
    return float(counter.get_total_flops())


def _limit(
    formula: Callable[..., int], dtype: torch.dtype | None, *, windows: bool
) -> Callable[..., float]:
    """Return a formula of torch's for operands of a type alone, and with windows for one place of
    each.
    """

    def count_flops(*operands: Any, **options: Any) -> float:
        real = [one for one in operands if isinstance(one, torch.Tensor)]
        if any(one.dtype != dtype for one in real):
            return 0.0
        flops = formula(*operands, **options)
        return flops / prod(operands[1].shape[2:]) if windows else flops

    count_flops._get_raw = True  # type: ignore[attr-defined]
    return count_flops
