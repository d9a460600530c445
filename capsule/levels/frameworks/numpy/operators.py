"""Level 0 in numpy: its own function where it has one, else the operator's formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

import numpy

from ...operators import EXACT, Operator, load
from ..base import Call

Sizes = Mapping[str, int]

OPERATIONS: dict[str, Callable[..., Call]] = {}
"""Functions of users' operators; everything else is numpy's own or a formula."""

USERS: dict[str, Operator] = {}
"""Users' operators, for their formulas."""


def operation(name: str, sizes: Sizes, tensors: tuple[Any, ...]) -> Call:
    """numpy's function for an operator, or the formula in the tensors' dtype."""  # noqa: D403
    if name in OPERATIONS:
        return OPERATIONS[name](sizes, *tensors)
    if name == "gemm" and not sizes["bias"]:
        a, b = tensors
        return numpy.matmul, (a.T if sizes["ta"] else a, b.T if sizes["tb"] else b)
    if name == "relu":
        (x,) = tensors
        return numpy.maximum, (x, x.dtype.type(0))
    return load(name).forward, (EXACT, sizes, *tensors)


def gradient(name: str, sizes: Sizes, tensors: tuple[Any, ...], upstream: tuple[Any, ...]) -> Call:
    """The derivative's formula in the tensors' dtype."""
    grad = upstream[0] if len(upstream) == 1 else upstream
    return (USERS.get(name) or load(name)).backward, (EXACT, sizes, grad, *tensors)
