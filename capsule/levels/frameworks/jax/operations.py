"""Operations of JAX, and their compilation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from jax import numpy as jnp

from ..base import NativeTensor

Sizes = Mapping[str, Any]
Function = Callable[..., Any]
Chooser = Callable[[Sizes], Function]
"""Factory of the function for a case's parameters and options."""


def always(function: Function) -> Chooser:
    """Return one function for all cases."""
    return lambda sizes: function  # noqa: ARG005


def compile_for(jitted: Any, operands: tuple[Any, ...]) -> Function:
    """Return a function that `jax.jit` has wrapped, compiled for such operands, once for all
    alike.
    """
    compiled: Function = jitted.lower(*operands).compile()
    return compiled


def widen(*tensors: NativeTensor) -> tuple[NativeTensor, ...]:
    """Return elements of 16 bits as float32, as Flax's layers normalize them; others as they
    are.
    """
    return tuple(one.astype(jnp.promote_types(one.dtype, jnp.float32)) for one in tensors)


def add_bias(x: NativeTensor, bias: NativeTensor) -> NativeTensor:
    """Return a sum that one of the two is repeated for.

    The gradient by that one is a sum too, which XLA takes in the type of what was added, rounding
    each step to 16 bits if it has those: such elements are added in float32.
    """
    wide, wide_bias = widen(x, bias)
    return jnp.add(wide, wide_bias).astype(x.dtype)
