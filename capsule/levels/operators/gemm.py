"""Matrix product C = A B of an m x k and a k x n matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .base import Call, Operator


class Gemm(Operator):
    """Inputs lie in (-1/4, 3/4): both signs occur, and yet |A||B| is only 1.6 times AB.

    With inputs around zero the bound, which grows with |A||B|, would outgrow an error of 1 % of AB
    from k = 3000 on; this way it stays below that up to k = 100 000 in float32.
    """

    name = "gemm"
    scale = 1.0
    offset = -0.25

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """A of shape (m, k) and B of shape (k, n)."""
        return {"a": (sizes["m"], sizes["k"]), "b": (sizes["k"], sizes["n"])}

    def native(self, framework: str, tensors: tuple[Any, ...]) -> Call:
        """`torch.mm` or `numpy.matmul`."""
        if framework == "torch":
            import torch

            return torch.mm, tensors
        import numpy

        return numpy.matmul, tensors

    def reference(self, *inputs: Any) -> Any:
        """The product in more bits."""
        a, b = inputs
        return a @ b

    def bound(self, reference: Any, roundoff: float, *inputs: Any) -> float:  # noqa: ARG002
        """gamma_k || |A||B| ||_2 with gamma_k = k u / (1 - k u), for any order of the sums.

        Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed. 2002, equation 3.13. Holds
        with fused multiply-add, not for Strassen-like algorithms and not for TF32, whose operands
        have a roundoff of 2**-11.

        Raises:
            ValueError: k u >= 1, where there is no such bound.
        """
        import numpy

        a, b = inputs
        ku = a.shape[1] * roundoff
        if ku >= 1:
            raise ValueError(f"no error bound for k = {a.shape[1]} at unit roundoff {roundoff:g}")
        return float(ku / (1 - ku) * numpy.linalg.norm(numpy.abs(a) @ numpy.abs(b)))


OPERATOR = Gemm()
