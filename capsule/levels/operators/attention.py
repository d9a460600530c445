"""Scaled dot product attention: of one length, and as language models have it."""

from __future__ import annotations

from math import prod
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
        """Draw queries that only a few keys answer."""
        q, k, v = super().hard_inputs(sizes, dtype, seed)
        q[0] *= 8
        return q, k, v

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(batch, heads, length, width)."""
        return (_shape(sizes),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return scores, weights, mean of v."""
        q, k, v = inputs
        weights = self._weights(c, sizes, q, k)
        return c.store(c.bilinear(_product, weights, v, sizes["length"]))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Compute the gradients by q, k and v."""
        q, k, v = inputs
        length, width = sizes["length"], sizes["width"]
        weights = self._weights(c, sizes, q, k)
        by_v = c.bilinear(_product_of_transpose, weights, upstream, length)
        by_weights = c.store(c.bilinear(_product_with_transpose, upstream, v, width))
        by_scores = c.store(weights * (by_weights - c.total(weights * by_weights, 3)))
        by_q = c.bilinear(_product, by_scores, k, length) / _root(c, width, q)
        by_k = c.bilinear(_product_of_transpose, by_scores, q, length) / _root(c, width, q)
        return c.store(by_q), c.store(by_k), c.store(by_v)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        length = sizes["length"]
        pairs = length * (length + 1) // 2 if sizes["causal"] else length**2
        return sizes["batch"] * sizes["heads"] * pairs * (4 * sizes["width"] + 6)

    def workspace(self, sizes: Sizes) -> int:
        """Return scores, weights and their bounds."""
        return 8 * sizes["batch"] * sizes["heads"] * sizes["length"] ** 2

    def _weights(self, c: Calculator, sizes: Sizes, q: Any, k: Any) -> Any:
        import numpy

        length = sizes["length"]
        seen = numpy.tri(length, dtype=bool) if sizes["causal"] else numpy.ones((length,) * 2, bool)
        return _weigh(c, sizes["width"], q, k, seen)


class GroupedAttention(Operator):
    """`attention` with fewer heads of keys and values, more keys than queries, and hidden ones.

    n sequences, h heads of m queries each, g heads of k keys and values each, of width w: `h / g`
    heads of queries that follow each other share one of keys, all of them with `g` 1. Where there
    are more keys than queries, the first ones are a cache, and the queries are the last positions.

    lengths 1   a tensor (n,) of whole numbers: so many of its keys each sequence has, and the rest
                is hidden; queries are the last of them.
    causal 1    hides keys after a query's position.
    window p    hides keys p positions and more before it too; 0 hides none.
    mask 1      a tensor (n, m, k) of booleans hides where it is false.

    Each query sees at least one key: its own position, the first one where `causal` is 0. FLOPs: 4
    w + 6 for each query and key that causal and window leave with whole lengths; what the other
    two hide goes by values, and counts.
    """

    name = "grouped_attention"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """q, k and v, and what hides keys."""
        batch, heads, groups, length, keys, width = (
            sizes[name] for name in ("n", "h", "g", "m", "k", "w")
        )
        if heads % groups:
            raise ValueError(f"{heads} heads (h) are not a multiple of {groups} groups (g)")
        if length > keys:
            raise ValueError(f"{length} queries (m) exceed {keys} keys (k)")
        if sizes["window"] and not sizes["causal"]:
            raise ValueError(
                f"window {sizes['window']} needs causal 1, because a window only looks back"
            )
        shape = (batch, groups, keys, width)
        tensors = {
            "q": Tensor((batch, heads, length, width), -2.0, 4.0),
            "k": Tensor(shape, -2.0, 4.0),
            "v": Tensor(shape),
        }
        if sizes["lengths"]:
            below = keys - self._least(sizes) + 1
            tensors["lengths"] = Tensor((batch,), below=below, real=False, gradient=False)
        if sizes["mask"]:
            tensors["mask"] = Tensor(
                (batch, length, keys), below=2, real=False, gradient=False, stored="bool"
            )
        return tensors

    def inputs(self, sizes: Sizes, dtype: str, seed: int) -> Any:
        """No sequence shorter than its queries, one whole, and no query that sees nothing."""
        import numpy

        named = dict(zip(self.tensors(sizes), super().inputs(sizes, dtype, seed)))
        if "lengths" in named:
            named["lengths"] += self._least(sizes)
            named["lengths"][0] = sizes["k"]
        if "mask" in named:
            own = numpy.zeros((sizes["n"], sizes["m"]), int)
            if sizes["causal"]:
                own += _positions(sizes, named.get("lengths"))
            numpy.put_along_axis(named["mask"], own[..., None], True, axis=2)
        return tuple(named.values())

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return the shape of q."""
        return (self._shape(sizes),)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return scores, weights, mean of v."""
        q, k, v = self._together(c, sizes, inputs)
        weights = _weigh(c, sizes["w"], q, k, self.visible(sizes, *inputs[3:]))
        mean = c.bilinear(_product, weights, v, sizes["k"])
        return c.store(c.select(lambda array: array.reshape(self._shape(sizes)), mean))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Compute the gradients by q, k and v; a group's terms may be stored before the sum."""
        q, k, v = self._together(c, sizes, inputs)
        weights = _weigh(c, sizes["w"], q, k, self.visible(sizes, *inputs[3:]))
        arriving = self._by_group(c, sizes, upstream)
        by_v = c.bilinear(_product_of_transpose, weights, arriving, sizes["m"])
        by_weights = c.store(c.bilinear(_product_with_transpose, arriving, v, sizes["w"]))
        by_scores = c.store(weights * (by_weights - c.total(weights * by_weights, -1)))
        by_q = c.bilinear(_product, by_scores, k, sizes["k"]) / _root(c, sizes["w"], q)
        by_k = c.bilinear(_product_of_transpose, by_scores, q, sizes["m"])
        by_k = by_k / _root(c, sizes["w"], q)
        return (
            c.store(c.select(lambda array: array.reshape(self._shape(sizes)), by_q)),
            self._add_up(c, sizes, by_k),
            self._add_up(c, sizes, by_v),
        )

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        length, keys = sizes["m"], sizes["k"]
        pairs = length * keys
        if sizes["causal"]:
            most = sizes["window"] or keys
            pairs = sum(min(most, keys - length + 1 + place) for place in range(length))
        return sizes["n"] * sizes["h"] * pairs * (4 * sizes["w"] + 6)

    def workspace(self, sizes: Sizes) -> int:
        """Return scores, weights and their bounds."""
        return 8 * prod(sizes[name] for name in ("n", "h", "m", "k"))

    def visible(self, sizes: Sizes, *hiding: Any) -> Any:
        """Return the keys that each query sees, booleans (n or 1, 1, 1, m, k)."""
        import numpy

        lengths = hiding[0] if sizes["lengths"] else numpy.array([sizes["k"]])
        key, position = numpy.arange(sizes["k"]), _positions(sizes, lengths)[..., None]
        seen = key < lengths[:, None, None]
        if sizes["causal"]:
            seen = seen & (key <= position)
        if sizes["window"]:
            seen = seen & (key > position - sizes["window"])
        if sizes["mask"]:
            seen = seen & hiding[-1]
        return seen[:, None, None]

    def _shape(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(sizes[name] for name in ("n", "h", "m", "w"))

    def _least(self, sizes: Sizes) -> int:
        """Return the shortest sequence."""
        return sizes["m"] if sizes["causal"] else 1

    def _by_group(self, c: Calculator, sizes: Sizes, x: Any) -> Any:
        """Return the heads as two axes: groups and the heads of each."""
        batch, heads, length, width = self._shape(sizes)
        groups = sizes["g"]
        shape = (batch, groups, heads // groups, length, width)
        return c.select(lambda array: array.reshape(shape), x)

    def _together(self, c: Calculator, sizes: Sizes, inputs: Any) -> tuple[Any, Any, Any]:
        q, k, v = inputs[:3]
        k, v = (c.select(lambda array: array[:, :, None], x) for x in (k, v))
        return self._by_group(c, sizes, q), k, v

    def _add_up(self, c: Calculator, sizes: Sizes, by: Any) -> Any:
        heads = sizes["h"] // sizes["g"]
        return c.store(c.linear(lambda array: array.sum(axis=2), c.store(by), heads, heads))


def _positions(sizes: Sizes, lengths: Any) -> Any:
    """Return each query's position among the keys of its sequence, (n or 1, m)."""
    import numpy

    ends = numpy.array([sizes["k"]]) if lengths is None else lengths
    return ends[:, None] - sizes["m"] + numpy.arange(sizes["m"])


def _weigh(c: Calculator, width: int, q: Any, k: Any, seen: Any) -> Any:
    """Return shares of the keys that are seen, along the last axis; of the others 0."""
    import numpy

    scores = c.store(c.bilinear(_product_with_transpose, q, k, width) / _root(c, width, q))
    value = c.value(scores)
    # the maximum of what is seen; elsewhere 0, so that nothing overflows before it is dropped
    most = numpy.where(seen, value, -numpy.inf).max(axis=-1, keepdims=True)
    shifted = c.select(lambda array: array * seen, scores - most)
    e = c.select(lambda array: array * seen, c.exp(shifted))
    return c.store(e / c.total(e, -1))


def _shape(sizes: Sizes) -> tuple[int, ...]:
    return tuple(sizes[name] for name in ("batch", "heads", "length", "width"))


def _root(c: Calculator, width: int, like: Any) -> Any:
    import numpy

    return numpy.sqrt(numpy.asarray(width, dtype=c.value(like).dtype))


def _product(x: Any, y: Any) -> Any:
    return x @ y


def _product_of_transpose(x: Any, y: Any) -> Any:
    return x.swapaxes(-1, -2) @ y


def _product_with_transpose(x: Any, y: Any) -> Any:
    return x @ y.swapaxes(-1, -2)


OPERATORS = {operator.name: operator for operator in (Attention(), GroupedAttention())}
