"""Level 0 in numpy: its own function where it has one, else the operator's formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy

from ...operators import EXACT, Operator
from ..base import Call

if TYPE_CHECKING:
    from numpy.typing import NDArray

Sizes = Mapping[str, int]


class NumpyOperators:
    """numpy's functions, and formulas in the tensors' dtype."""

    def operation(
        self, operator: Operator, sizes: Sizes, tensors: tuple[NDArray[Any], ...]
    ) -> Call:
        """Return a user's function, numpy's own for three operators, or else the formula."""
        if operator.natives is not None:
            native = operator.natives.get("numpy")
            return native(sizes, *tensors) if native else _formula(operator, sizes, tensors)
        if operator.name == "gemm" and not sizes["bias"]:
            a, b = tensors
            return numpy.matmul, (a.T if sizes["ta"] else a, b.T if sizes["tb"] else b)
        if operator.name == "relu":
            (x,) = tensors
            return numpy.maximum, (x, x.dtype.type(0))
        if operator.name == "rfft":
            return _rfft, tensors
        return _formula(operator, sizes, tensors)

    def gradient(
        self,
        operator: Operator,
        sizes: Sizes,
        tensors: tuple[NDArray[Any], ...],
        wrt: tuple[int, ...],  # noqa: ARG002  (the formula yields those of `Operator.wrt`)
        upstream: tuple[NDArray[Any], ...],
    ) -> Call:
        """Return the derivative's formula: numpy differentiates nothing itself."""
        arriving = upstream[0] if len(upstream) == 1 else upstream
        return operator.backward, (EXACT, sizes, arriving, *tensors)


def _rfft(x: NDArray[Any]) -> NDArray[Any]:
    y = numpy.fft.rfft(x)
    # numpy before 2 transforms in double precision alone
    return numpy.stack((y.real, y.imag), axis=-1).astype(x.dtype, copy=False)


def _formula(operator: Operator, sizes: Sizes, tensors: tuple[NDArray[Any], ...]) -> Call:
    return operator.forward, (EXACT, sizes, *tensors)
