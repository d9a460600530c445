"""Softmax along the rows of a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .base import Call, Operator

_EXP_ROUNDOFFS = 8
"""Relative error that an exponential may have, in unit roundoffs: 4 ulp. numpy documents at most
2.52 ulp for its float32 one, CUDA 2, SLEEF's u10 (torch on CPUs) 1."""


class Softmax(Operator):
    """Inputs lie in (-8, 8), so the largest element of a row is up to exp(16) times the least."""

    name = "softmax"
    scale = 16.0
    offset = -8.0

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """One matrix of shape (rows, columns)."""
        return {"x": (sizes["rows"], sizes["columns"])}

    def native(self, framework: str, tensors: tuple[Any, ...]) -> Call:
        """`torch.softmax` along axis 1, or the shifted formula in numpy, which has no softmax."""
        (x,) = tensors
        if framework == "torch":
            import torch

            return torch.softmax, (x, 1)
        return _shifted, (x,)

    def reference(self, *inputs: Any) -> Any:
        """The shifted formula in more bits."""
        return _shifted(*inputs)

    def bound(self, reference: Any, roundoff: float, *inputs: Any) -> float:
        """First-order bound for the shifted formula, n columns, unit roundoff u.

        In the manner of Blanchard, Higham and Higham, Accurately computing the log-sum-exp and
        softmax functions, IMA J. Numer. Anal. 41 (2021), 2311-2330, with an exponential that is
        c u off. Per element of a row with maximum M: rounding x_j - M changes e_j = exp(x_j - M)
        by (M - x_j) u, the exponential by c u; their sum, all terms positive, inherits the mean
        of (M - x) u weighted by the result g, and c u, and adds (n - 1) u; a division or a
        multiplication by the reciprocal adds 2 u. Together, relative to g_j:

            |error_j| <= g_j u ((M - x_j) + sum_k g_k (M - x_k) + 2 c + n + 1)
        """
        import numpy

        (x,) = inputs
        drop = x.max(axis=1, keepdims=True) - x
        weighted = (reference * drop).sum(axis=1, keepdims=True)
        relative = drop + weighted + (2 * _EXP_ROUNDOFFS + x.shape[1] + 1)
        return roundoff * float(numpy.linalg.norm(reference * relative))


def _shifted(x: Any) -> Any:
    import numpy

    exponentials = numpy.exp(x - x.max(axis=1, keepdims=True))
    exponentials /= exponentials.sum(axis=1, keepdims=True)
    return exponentials


OPERATOR = Softmax()
