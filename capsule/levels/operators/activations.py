"""Functions of one element: relu, leaky_relu, sigmoid, tanh, gelu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import Operator, Sizes, Tensor
from .rounding import Calculator

if TYPE_CHECKING:
    from .base import Arrays


class _Activation(Operator):
    """One vector of n elements in, one out. Inputs lie in (-4, 4) unless the class says otherwise.

    FLOPs: `work` per element. Checked with `hard` too: zeros, and where it saturates.
    """

    work: int
    reach = 4.0
    hard: tuple[float, ...] = (40.0, -40.0, 2.0**-13, -(2.0**-13), 0.0, -0.0)

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return one vector of n elements."""
        return {"x": Tensor((sizes["n"],), -self.reach, 2 * self.reach)}

    def hard_inputs(self, sizes: Sizes, dtype: str, seed: int) -> Arrays:
        """Draw inputs with `hard` values after the first element and before the last."""
        (x,) = super().hard_inputs(sizes, dtype, seed)
        count = len(self.hard)
        if x.size >= 2 * count + 2:
            x[1 : count + 1] = x[-count - 1 : -1] = self.hard
        return (x,)

    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:
        """Return one vector of n elements."""
        return ((sizes["n"],),)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return self.work * sizes["n"]


class Relu(_Activation):
    """max(x, 0), 1 FLOP. Inputs lie in (-1, 1) and are never 0. Exact, so error and ratio are 0."""

    name = "relu"
    work = 1
    reach = 1.0
    hard = (1024.0, -1024.0, 0.0, -0.0)
    smooth = False

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:  # noqa: ARG002
        """Return zeros where x < 0."""
        (x,) = inputs
        positive = c.value(x) > 0
        return c.store(c.select(lambda array: array * positive, x))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:  # noqa: ARG002
        """Return the upstream gradient where x > 0."""
        positive = c.value(inputs[0]) > 0
        return (c.store(c.select(lambda array: array * positive, upstream)),)


class LeakyRelu(_Activation):
    """x where x > 0, else x percent / 100; 1 FLOP. Inputs lie in (-1, 1) and are never 0."""

    name = "leaky_relu"
    work = 1
    reach = 1.0
    hard = (1024.0, -1024.0, 0.0, -0.0)
    smooth = False

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the formula."""
        (x,) = inputs
        return _lean(c, sizes, x, c.value(x) > 0)

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """Return the upstream gradient where x > 0, else its share."""
        return (_lean(c, sizes, upstream, c.value(inputs[0]) > 0),)


class Sigmoid(_Activation):
    """1 / (1 + exp(-x)), 4 FLOPs. Its gradient uses the result as stored."""

    name = "sigmoid"
    work = 4

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:  # noqa: ARG002
        """Return the formula."""
        return c.store(c.sigmoid(inputs[0]))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """G y (1 - y)."""
        y = self.forward(c, sizes, *inputs)
        return (c.store(upstream * y * (1 - y)),)


class Tanh(_Activation):
    """tanh(x), 1 FLOP. Its gradient uses the result as stored."""

    name = "tanh"
    work = 1

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:  # noqa: ARG002
        """Return the formula."""
        return c.store(c.tanh(inputs[0]))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """G (1 - y**2)."""
        y = self.forward(c, sizes, *inputs)
        return (c.store(upstream * (1 - y * y)),)


class Gelu(_Activation):
    """x (1 + erf(x / sqrt 2)) / 2, 5 FLOPs; with `approximate` 1 the form with a tanh.

    That is x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2, counted as 5 FLOPs too.
    """

    name = "gelu"
    work = 5
    # the series of the reference's error function grows with the square
    hard = (6.0, -6.0, 2.0**-13, -(2.0**-13), 0.0, -0.0)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the formula."""
        (x,) = inputs
        if sizes["approximate"]:
            return c.store(x * 0.5 * (c.tanh(_inner(c, x)) + 1))
        return c.store(x * 0.5 * (c.erf(x * _exact(c, x, "half root")) + 1))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """G (half + x phi(x)), phi the density of the normal distribution; or of the tanh form."""
        (x,) = inputs
        if sizes["approximate"]:
            t = c.tanh(_inner(c, x))
            slope = (x * x * (3 * _CUBE) + 1) * _exact(c, x, "root 2/pi")
            derivative = (t + 1) * 0.5 + x * 0.5 * (1 - t * t) * slope
        else:
            density = c.exp(x * x * -0.5) * (_exact(c, x, "root 2/pi") * 0.5)
            half = (c.erf(x * _exact(c, x, "half root")) + 1) * 0.5
            derivative = half + x * density
        return (c.store(upstream * derivative),)


_CUBE = 0.044715


def _lean(c: Calculator, sizes: Sizes, x: Any, positive: Any) -> Any:
    """Return the values where it is positive, and so many percent of them elsewhere."""
    whole = c.select(lambda array: array * positive, x)
    rest = c.select(lambda array: array * ~positive, x)
    return c.store(whole + rest * sizes["percent"] / 100)


def _inner(c: Calculator, x: Any) -> Any:
    return (x + x * x * x * _CUBE) * _exact(c, x, "root 2/pi")


def _exact(c: Calculator, x: Any, name: str) -> Any:
    """Return a constant in the dtype of the values: a Python float would cut longdouble to 53
    bits.
    """
    import numpy

    unit = numpy.ones((), dtype=c.value(x).dtype)
    if name == "half root":
        return numpy.sqrt(unit / 2)
    return numpy.sqrt(2 / numpy.arccos(-unit))


OPERATORS = {
    operator.name: operator for operator in (Relu(), LeakyRelu(), Sigmoid(), Tanh(), Gelu())
}
