"""One step of a long short-term memory cell."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from .base import Operator, Sizes, Tensor
from .rounding import Calculator

if TYPE_CHECKING:
    from .base import Arrays


class LstmCell(Operator):
    """i, f, g, o = x Wx' + bx + h Wh' + bh in four parts of `hidden` rows each, in that order;
    c' = sigmoid(f) c + sigmoid(i) tanh(g); h' = sigmoid(o) tanh(c'). Outputs h', c'.

    x is (n, width), h and c are (n, hidden), Wx (4 hidden, width), Wh (4 hidden, hidden), bx and bh
    (4 hidden,). Sums, gates and products may be stored in the dtype. FLOPs: 8 n hidden (width +
    hidden) for the products and 32 per element of h'.
    """

    name = "lstm_cell"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """x, h, c, Wx, Wh, bx, bh."""
        n, width, hidden = sizes["n"], sizes["width"], sizes["hidden"]
        shapes = {
            "x": (n, width),
            "h": (n, hidden),
            "c": (n, hidden),
            "wx": (4 * hidden, width),
            "wh": (4 * hidden, hidden),
            "bx": (4 * hidden,),
            "bh": (4 * hidden,),
        }
        # weights of 1/16 of the usual range: sums of hundreds of them would saturate the gates
        small = ("wx", "wh")
        return {
            name: Tensor(shape, -0.0625, 0.125) if name in small else Tensor(shape, -0.5)
            for name, shape in shapes.items()
        }

    def hard_inputs(self, sizes: Sizes, dtype: str, seed: int) -> Arrays:
        """Draw inputs for an open input gate and a shut output gate."""
        arrays = super().hard_inputs(sizes, dtype, seed)
        bx = arrays[5]
        bx[0], bx[-1] = 16, -16
        return arrays

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return the pair h', c', each (n, hidden)."""
        return ((sizes["n"], sizes["hidden"]),) * 2

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the formula."""
        (_, _, _, o), cell, squashed = self._run(c, sizes, inputs)
        return c.store(o * squashed), cell

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Compute the gradients by all seven inputs."""
        x, h, before, wx, wh, _, _ = inputs
        n, hidden = sizes["n"], sizes["hidden"]
        (i, f, g, o), _, squashed = self._run(c, sizes, inputs)
        by_h, by_c = upstream
        by_cell = c.store(by_c + c.store(c.store(by_h * o) * (1 - squashed * squashed)))
        parts = (
            c.store(by_cell * g) * c.store((1 - i) * i),
            c.store(by_cell * before) * c.store((1 - f) * f),
            c.store(by_cell * i) * c.store(1 - g * g),
            c.store(by_h * squashed) * c.store((1 - o) * o),
        )
        gates = _join(c, [c.store(part) for part in parts])
        by_x = c.bilinear(_product, gates, wx, 4 * hidden)
        by_before = c.bilinear(_product, gates, wh, 4 * hidden)
        by_wx = c.bilinear(_product_of_transpose, gates, x, n)
        by_wh = c.bilinear(_product_of_transpose, gates, h, n)
        by_b = c.store(c.linear(lambda array: array.sum(axis=0), gates, n))
        unstored = (by_x, by_before, by_cell * f, by_wx, by_wh)
        return (*map(c.store, unstored), by_b, by_b)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        n, width, hidden = sizes["n"], sizes["width"], sizes["hidden"]
        return 8 * n * hidden * (width + hidden) + 32 * n * hidden

    def _run(self, c: Calculator, sizes: Sizes, inputs: tuple[Any, ...]) -> Any:
        x, h, before, wx, wh, bx, bh = inputs
        hidden = sizes["hidden"]
        from_x = c.store(c.bilinear(_product_with_transpose, x, wx, sizes["width"]) + bx)
        from_h = c.store(c.bilinear(_product_with_transpose, h, wh, hidden) + bh)
        both = c.store(from_x + from_h)
        i, f, g, o = (
            c.select(partial(_cut, place=place, width=hidden), both) for place in range(4)
        )
        gates = [c.store(c.sigmoid(gate)) for gate in (i, f, o)]
        gates.insert(2, c.store(c.tanh(g)))
        cell = c.store(c.store(gates[1] * before) + c.store(gates[0] * gates[2]))
        return gates, cell, c.store(c.tanh(cell))


def _cut(array: Any, place: int, width: int) -> Any:
    return array[:, place * width : (place + 1) * width]


def _join(c: Calculator, parts: list[Any]) -> Any:
    """Return the parts side by side."""
    import numpy

    count, width = len(parts), parts[0].shape[1]

    def widen(array: Any, place: int) -> Any:
        wide = numpy.zeros((array.shape[0], count * width), array.dtype, like=array)
        wide[:, place * width : (place + 1) * width] = array
        return wide

    wide = [c.select(partial(widen, place=place), part) for place, part in enumerate(parts)]
    return sum(wide[1:], wide[0])


def _product(x: Any, y: Any) -> Any:
    return x @ y


def _product_of_transpose(x: Any, y: Any) -> Any:
    return x.swapaxes(-1, -2) @ y


def _product_with_transpose(x: Any, y: Any) -> Any:
    return x @ y.swapaxes(-1, -2)


OPERATORS = {"lstm_cell": LstmCell()}
