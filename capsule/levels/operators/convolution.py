"""Convolutions and transposed convolutions with one, two and three spatial axes."""

from __future__ import annotations

from math import prod
from typing import Any

from .base import Operator, Sizes, Tensor
from .correlation import Window, correlate, scatter, weigh
from .rounding import Calculator

AXES = {1: ("w",), 2: ("h", "w"), 3: ("d", "h", "w")}
WINDOWS = {1: ("s",), 2: ("r", "s"), 3: ("q", "r", "s")}


class Convolution(Operator):
    """y[n, k] = sum over c of x[n, c] correlated with w[k, c], plus b[k] where `bias` is 1.

    x is (n, c, [d,] [h,] w), w is (k, c / groups, [q,] [r,] s), b is (k,); stride, padding (zeros)
    and dilation are the same along each axis. Inputs as gemm's. Bounds grant a framework that goes
    by im2col that the shares of window positions (in x's gradient) and of samples (in w's and b's)
    pass through memory before they are summed. FLOPs: 2 per product of an output
    element, those with padding included, and 1 for a bias.
    """

    def __init__(self, rank: int) -> None:
        self.name = f"conv{rank}d"
        self._rank = rank

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """x, w and, with a bias, b."""
        groups = sizes["groups"]
        if sizes["c"] % groups or sizes["k"] % groups:
            raise ValueError(
                f"c is {sizes['c']} and k is {sizes['k']}, expected multiples of groups {groups}"
            )
        tensors = {
            "x": Tensor((sizes["n"], sizes["c"], *self._spatial(sizes))),
            "w": Tensor((sizes["k"], sizes["c"] // groups, *self._window(sizes))),
        }
        return {**tensors, "b": Tensor((sizes["k"],))} if sizes["bias"] else tensors

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(n, k, positions...)."""
        positions = map(_how(sizes).length, self._spatial(sizes), self._window(sizes))
        shape = (sizes["n"], sizes["k"], *positions)
        if min(shape) < 1:
            raise ValueError(
                f"the window {tuple(self._window(sizes))} does not fit into"
                f" {tuple(self._spatial(sizes))} with padding {sizes['padding']}: the result would"
                f" have the shape {shape}"
            )
        return (shape,)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the correlation and the bias."""
        how = _how(sizes)
        x, w = inputs[:2]
        result = c.bilinear(lambda x, w: correlate(x, w, how), x, w, self._terms(sizes))
        return c.store(_add_bias(c, sizes, result, inputs))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Transposes of the correlation in x and in w; sum over batch and positions for b."""
        how, spatial, window = _how(sizes), self._spatial(sizes), self._window(sizes)
        x, w = inputs[:2]
        terms = sizes["k"] // sizes["groups"] * prod(window)
        by_x = c.bilinear(
            lambda g, w: scatter(g, w, how, spatial), upstream, w, terms, prod(window)
        )
        positions = sizes["n"] * prod(self.outputs(sizes)[0][2:])
        by_w = c.bilinear(lambda x, g: weigh(x, g, how, window), x, upstream, positions, sizes["n"])
        return _add_bias_gradient(c, sizes, upstream, (c.store(by_x), c.store(by_w)), positions)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return prod(self.outputs(sizes)[0]) * (2 * self._terms(sizes) + sizes["bias"])

    def _terms(self, sizes: Sizes) -> int:
        return sizes["c"] // sizes["groups"] * prod(self._window(sizes))

    def _spatial(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(sizes[name] for name in AXES[self._rank])

    def _window(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(sizes[name] for name in WINDOWS[self._rank])


class TransposedConvolution(Operator):
    """The transpose of a convolution as a forward operation: c channels in, k channels out.

    x is (n, c, [d,] [h,] w), w is (c, k / groups, [q,] [r,] s), b is (k,). A length L becomes
    (L - 1) stride - 2 padding + dilation (window - 1) + 1 + output_padding. Inputs and bounds as a
    convolution's.
    FLOPs: 2 per product of an input element and a weight, and 1 per output element for a bias.
    """

    def __init__(self, rank: int) -> None:
        self.name = f"conv_transpose{rank}d"
        self._rank = rank

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """x, w and, with a bias, b."""
        groups = sizes["groups"]
        if sizes["c"] % groups or sizes["k"] % groups:
            raise ValueError(
                f"c is {sizes['c']} and k is {sizes['k']}, expected multiples of groups {groups}"
            )
        spatial = tuple(sizes[name] for name in AXES[self._rank])
        tensors = {
            "x": Tensor((sizes["n"], sizes["c"], *spatial)),
            "w": Tensor((sizes["c"], sizes["k"] // groups, *self._window(sizes))),
        }
        return {**tensors, "b": Tensor((sizes["k"],))} if sizes["bias"] else tensors

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """(n, k, positions...).

        Raises:
            ValueError: `output_padding` is not below the stride, or nothing is left.
        """
        if sizes["output_padding"] >= sizes["stride"]:
            raise ValueError(
                f"output_padding is {sizes['output_padding']}, expected less than the stride"
                f" {sizes['stride']}"
            )
        positions = tuple(
            (sizes[axis] - 1) * sizes["stride"]
            - 2 * sizes["padding"]
            + sizes["dilation"] * (window - 1)
            + 1
            + sizes["output_padding"]
            for axis, window in zip(AXES[self._rank], self._window(sizes))
        )
        shape = (sizes["n"], sizes["k"], *positions)
        if min(shape) < 1:
            raise ValueError(
                f"padding {sizes['padding']} makes the result empty, of shape {shape}: reduce the"
                " padding"
            )
        return (shape,)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Compute a convolution's backward pass on its upstream gradient, and add the bias."""
        how, spatial = _how(sizes), self.outputs(sizes)[0][2:]
        terms = sizes["c"] // sizes["groups"] * prod(self._window(sizes))
        passes = prod(self._window(sizes))
        x, w = inputs[:2]
        result = c.bilinear(lambda x, w: scatter(x, w, how, spatial), x, w, terms, passes)
        return c.store(_add_bias(c, sizes, result, inputs))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Return a correlation for x; for w the same map as a convolution's, its two factors
        swapped.
        """
        how, window = _how(sizes), self._window(sizes)
        x, w = inputs[:2]
        terms = sizes["k"] // sizes["groups"] * prod(window)
        by_x = c.bilinear(lambda g, w: correlate(g, w, how), upstream, w, terms)
        places = sizes["n"] * prod(sizes[name] for name in AXES[self._rank])
        by_w = c.bilinear(lambda g, x: weigh(g, x, how, window), upstream, x, places, sizes["n"])
        positions = sizes["n"] * prod(self.outputs(sizes)[0][2:])
        return _add_bias_gradient(c, sizes, upstream, (c.store(by_x), c.store(by_w)), positions)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        places = sizes["n"] * prod(sizes[name] for name in AXES[self._rank])
        products = places * sizes["c"] * sizes["k"] // sizes["groups"] * prod(self._window(sizes))
        return 2 * products + sizes["bias"] * prod(self.outputs(sizes)[0])

    def _window(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(sizes[name] for name in WINDOWS[self._rank])


def _how(sizes: Sizes) -> Window:
    return Window(*(sizes[name] for name in ("stride", "padding", "dilation", "groups")))


def _add_bias(c: Calculator, sizes: Sizes, result: Any, inputs: tuple[Any, ...]) -> Any:
    if not sizes["bias"]:
        return result
    tail = (1,) * (len(result.shape) - 2)
    return c.between(result) + c.select(lambda b: b.reshape(-1, *tail), inputs[2])


def _add_bias_gradient(
    c: Calculator, sizes: Sizes, upstream: Any, gradients: tuple[Any, ...], positions: int
) -> tuple[Any, ...]:
    if not sizes["bias"]:
        return gradients
    axes = (0, *range(2, len(upstream.shape)))
    by_b = c.linear(lambda g: g.sum(axis=axes), upstream, positions, sizes["n"])
    return (*gradients, c.store(by_b))


OPERATORS = {
    operator.name: operator
    for rank in (1, 2, 3)
    for operator in (Convolution(rank), TransposedConvolution(rank))
}
