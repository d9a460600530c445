"""Products: gemm (with transposes and a bias), matmul (batched), einsum (to heads)."""

from __future__ import annotations

from math import prod
from typing import Any

from .base import Operator, Sizes, Tensor
from .rounding import Calculator


class Gemm(Operator):
    """C = op(A) op(B) + c of an m x k and a k x n matrix, op a transpose where `ta` or `tb` is 1.

    A is stored as (m, k), or (k, m) with `ta`; B as (k, n), or (n, k) with `tb`; with `bias` 1 a
    third input c of shape (n,) is added to each row.

    Inputs lie in (-1/4, 3/4): both signs occur, and yet |A||B| is only 1.6 times AB. With inputs
    around zero the bound, which grows with |A||B|, would outgrow an error of 1 % of AB from
    k = 3000 on; this way it stays below that up to k = 100 000 in float32.

    FLOPs: 2 m n k, and m n with a bias.
    """

    name = "gemm"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return a, B and, with a bias, c."""
        m, n, k = sizes["m"], sizes["n"], sizes["k"]
        tensors = {
            "a": Tensor((k, m) if sizes["ta"] else (m, k)),
            "b": Tensor((n, k) if sizes["tb"] else (k, n)),
        }
        return {**tensors, "c": Tensor((n,))} if sizes["bias"] else tensors

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return one matrix of shape (m, n)."""
        return ((sizes["m"], sizes["n"]),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the product and the bias."""
        a, b = inputs[:2]
        product = c.bilinear(_product(sizes["ta"], sizes["tb"]), a, b, sizes["k"])
        return c.store(c.between(product) + inputs[2] if sizes["bias"] else product)

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """G op(B)' and op(A)' G, transposed back to how A and B are stored; sum of G over rows."""
        a, b = inputs[:2]
        ta, tb = sizes["ta"], sizes["tb"]
        if ta:
            by_a = c.bilinear(_product(tb, 1), b, upstream, sizes["n"])
        else:
            by_a = c.bilinear(_product(0, 1 - tb), upstream, b, sizes["n"])
        if tb:
            by_b = c.bilinear(_product(1, ta), upstream, a, sizes["m"])
        else:
            by_b = c.bilinear(_product(1 - ta, 0), a, upstream, sizes["m"])
        by_both = (c.store(by_a), c.store(by_b))
        if not sizes["bias"]:
            return by_both
        return (*by_both, c.store(c.linear(lambda g: g.sum(axis=0), upstream, sizes["m"])))

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return sizes["m"] * sizes["n"] * (2 * sizes["k"] + sizes["bias"])


class Matmul(Operator):
    """C[i] = A[i] B[i] for a batch of (m, k) and (k, n) matrices. FLOPs: 2 batch m n k."""

    name = "matmul"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return a of shape (batch, m, k), B of shape (batch, k, n)."""
        batch, m, n, k = (sizes[name] for name in ("batch", "m", "n", "k"))
        return {"a": Tensor((batch, m, k)), "b": Tensor((batch, k, n))}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return one array of shape (batch, m, n)."""
        return ((sizes["batch"], sizes["m"], sizes["n"]),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the products."""
        a, b = inputs
        return c.store(c.bilinear(_product(0, 0), a, b, sizes["k"]))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """G B' and A' G."""
        a, b = inputs
        by_a = c.bilinear(_product(0, 1), upstream, b, sizes["n"])
        by_b = c.bilinear(_product(1, 0), a, upstream, sizes["m"])
        return c.store(by_a), c.store(by_b)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return 2 * sizes["batch"] * sizes["m"] * sizes["n"] * sizes["k"]


class Einsum(Operator):
    """bri,ihc->bhrc: vectors x (batch, rows, inner) by weights w (inner, heads, columns) to heads.

    As attention makes its heads: one sum over `inner`, whose result no reshape alone brings into
    the order of (batch, heads, rows, columns). FLOPs: 2 batch rows inner heads columns.
    """

    name = "einsum"
    equation = "bri,ihc->bhrc"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return vectors x and weights w."""
        batch, rows, inner, heads, columns = self._lengths(sizes)
        return {"x": Tensor((batch, rows, inner)), "w": Tensor((inner, heads, columns))}

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(batch, heads, rows, columns)."""
        batch, rows, _, heads, columns = self._lengths(sizes)
        return ((batch, heads, rows, columns),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the sums."""
        x, w = inputs
        return c.store(c.bilinear(_summation(self.equation), x, w, sizes["inner"]))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Compute the gradients by x and w."""
        x, w = inputs
        batch, rows, _, heads, columns = self._lengths(sizes)
        by_x = c.bilinear(_summation("bhrc,ihc->bri"), upstream, w, heads * columns)
        by_w = c.bilinear(_summation("bri,bhrc->ihc"), x, upstream, batch * rows)
        return c.store(by_x), c.store(by_w)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return 2 * prod(self._lengths(sizes))

    def _lengths(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(sizes[name] for name in ("batch", "rows", "inner", "heads", "columns"))


def _summation(equation: str) -> Any:
    import numpy

    return lambda x, y: numpy.einsum(equation, x, y)


def _product(ta: int, tb: int) -> Any:
    def product(x: Any, y: Any) -> Any:
        return (x.swapaxes(-1, -2) if ta else x) @ (y.swapaxes(-1, -2) if tb else y)

    return product


OPERATORS = {operator.name: operator for operator in (Gemm(), Matmul(), Einsum())}
