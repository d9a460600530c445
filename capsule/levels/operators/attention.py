"""Scaled dot product attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import Operator, Sizes, Tensor
from .rounding import Calculator

if TYPE_CHECKING:
    from .base import Arrays


class Attention(Operator):
    """y = softmax(q k' / sqrt(width)) v for each of batch x heads; `causal` 1 hides later keys.

    q, k, v are (batch, heads, length, width), q and k in (-2, 2). Scores, weights and their
    gradients may be stored in the dtype. FLOPs: 4 width + 6 per head and pair of a query and a key
    that it sees: length**2 of them, or length (length + 1) / 2.
    """

    name = "attention"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """q, k and v."""
        shape = _shape(sizes)
        wide = Tensor(shape, -2.0, 4.0)
        return {"q": wide, "k": wide, "v": Tensor(shape)}

    def hard_inputs(self, sizes: Sizes, dtype: str, seed: int) -> Arrays:
        """With queries that a few keys alone answer."""
        q, k, v = super().hard_inputs(sizes, dtype, seed)
        q[0] *= 8
        return q, k, v

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(batch, heads, length, width)."""
        return (_shape(sizes),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Scores, weights, mean of v."""
        q, k, v = inputs
        weights = self._weights(c, sizes, q, k)
        return c.store(c.bilinear(_product, weights, v, sizes["length"]))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """By q, k and v."""
        q, k, v = inputs
        length, width = sizes["length"], sizes["width"]
        weights = self._weights(c, sizes, q, k)
        by_v = c.bilinear(_product_of_transpose, weights, upstream, length)
        by_weights = c.store(c.bilinear(_product_with_transpose, upstream, v, width))
        by_scores = c.store(weights * (by_weights - c.total(weights * by_weights, 3)))
        by_q = c.bilinear(_product, by_scores, k, length) / _root(c, sizes, q)
        by_k = c.bilinear(_product_of_transpose, by_scores, q, length) / _root(c, sizes, q)
        return c.store(by_q), c.store(by_k), c.store(by_v)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        length = sizes["length"]
        pairs = length * (length + 1) // 2 if sizes["causal"] else length**2
        return sizes["batch"] * sizes["heads"] * pairs * (4 * sizes["width"] + 6)

    def workspace(self, sizes: Sizes) -> int:
        """Scores, weights and their bounds."""
        return 8 * sizes["batch"] * sizes["heads"] * sizes["length"] ** 2

    def _weights(self, c: Calculator, sizes: Sizes, q: Any, k: Any) -> Any:
        import numpy

        scores = c.store(
            c.bilinear(_product_with_transpose, q, k, sizes["width"]) / _root(c, sizes, q)
        )
        length = sizes["length"]
        seen = numpy.tri(length, dtype=bool) if sizes["causal"] else numpy.ones((length,) * 2, bool)
        value = c.value(scores)
        # the maximum of what is seen; elsewhere 0, so that nothing overflows before it is dropped
        most = numpy.where(seen, value, -numpy.inf).max(axis=3, keepdims=True)
        shifted = c.select(lambda array: array * seen, scores - most)
        e = c.select(lambda array: array * seen, c.exp(shifted))
        return c.store(e / c.total(e, 3))


def _shape(sizes: Sizes) -> tuple[int, ...]:
    return tuple(sizes[name] for name in ("batch", "heads", "length", "width"))


def _root(c: Calculator, sizes: Sizes, like: Any) -> Any:
    import numpy

    return numpy.sqrt(numpy.asarray(sizes["width"], dtype=c.value(like).dtype))


def _product(x: Any, y: Any) -> Any:
    return x @ y


def _product_of_transpose(x: Any, y: Any) -> Any:
    return x.swapaxes(-1, -2) @ y


def _product_with_transpose(x: Any, y: Any) -> Any:
    return x @ y.swapaxes(-1, -2)


OPERATORS = {"attention": Attention()}
