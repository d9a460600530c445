"""Losses, each the mean over a batch: one number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import Operator, Sizes, Tensor, round_to
from .rounding import Calculator
from .softmax import FAR

if TYPE_CHECKING:
    from .base import Arrays


class _Loss(Operator):
    def outputs(self, sizes: Sizes) -> tuple[tuple[int, ...], ...]:  # noqa: ARG002
        """Return one number, of shape ()."""
        return ((),)


class CrossEntropy(_Loss):
    """-mean over rows of log p[row, label[row]]: of probabilities, with no softmax in it.

    p is (rows, columns) in (0, 1), and need not sum to 1; labels are (rows,). FLOPs: 2 per row.
    """

    name = "cross_entropy"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return probabilities and labels."""
        return {
            "p": Tensor((sizes["rows"], sizes["columns"]), 0.0),
            "labels": _labels(sizes),
        }

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the formula."""
        p, labels = inputs
        logs = c.store(c.log(c.select(lambda array: _pick(array, labels), p)))
        return c.store(_scalar(c, -(c.total(logs) / sizes["rows"])))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """-G / (rows p) at the labels, else 0."""
        p, labels = inputs
        share = c.store(upstream / sizes["rows"])
        at_labels = -(share / c.select(lambda array: _pick(array, labels), p))
        shape = p.shape
        return (c.store(c.select(lambda array: _place(array, labels, shape), at_labels)),)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return 2 * sizes["rows"]


class SoftmaxCrossEntropy(_Loss):
    """-mean over rows of log softmax(x)[row, label[row]], the softmax included.

    x is (rows, columns) in (-8, 8), labels are (rows,). With `weighted` 1 each row counts as much
    as the weight of its label, of weights (columns,) in (0, 1); the sum is still divided by the
    rows, and not by the sum of weights, as many a library does. The logarithms may be stored in the
    dtype before they are averaged, and the gradient taken from those. FLOPs: 5 per element, 2 per
    row, 3 with weights.
    """

    name = "softmax_cross_entropy"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return logits, labels and, where they are, weights."""
        tensors = {
            "x": Tensor((sizes["rows"], sizes["columns"]), -8.0, 16.0),
            "labels": _labels(sizes),
        }
        if sizes["weighted"]:
            tensors["weights"] = Tensor((sizes["columns"],), 0.0, gradient=False)
        return tensors

    def hard_inputs(self, sizes: Sizes, dtype: str, seed: int) -> Arrays:
        """Draw rows far from 0, as for a softmax, and one with a nearly certain first class."""
        x, *others = super().hard_inputs(sizes, dtype, seed)
        x[0, 0] += 64
        x[0] = round_to(x[0] + FAR, dtype)
        x[1:][-1:] = round_to(x[1:][-1:] - FAR, dtype)
        return (x, *others)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the formula, shifted by each row's maximum."""
        x, labels, *weights = inputs
        picked = c.select(lambda array: _pick(array, labels), _log_softmax(c, x))
        for of_labels in weights:
            picked = c.store(picked * _of_rows(c, of_labels, labels))
        return c.store(_scalar(c, -(c.total(picked) / sizes["rows"])))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """(softmax - 1 at the label) G / rows, times the weight."""
        x, labels, *weights = inputs
        share = c.store(upstream / sizes["rows"])
        for of_labels in weights:
            share = c.store(share * _of_rows(c, of_labels, labels))
        ones = _place(1 + 0 * _pick(c.value(x), labels), labels, x.shape)
        return (c.store((c.exp(_log_softmax(c, x)) - ones) * share),)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return sizes["rows"] * (5 * sizes["columns"] + 2 + sizes["weighted"])


class SigmoidCrossEntropy(_Loss):
    """Mean over n elements of -(y log s(x) + (1 - y) log(1 - s(x))), the sigmoid s included.

    x is n logits in (-8, 8), y are n targets in (0, 1). No exponential of a positive number is
    taken, so no logit overflows. Sums and products may be stored in the dtype, in the order of
    torch, (1 - y) x - log s(x), or of TensorFlow, max(x, 0) - x y + log(1 + exp(-|x|)). FLOPs: 9
    per element.
    """

    name = "sigmoid_cross_entropy"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return logits and targets."""
        return {
            "x": Tensor((sizes["n"],), -8.0, 16.0),
            "y": Tensor((sizes["n"],), 0.0, gradient=False),
        }

    def hard_inputs(self, sizes: Sizes, dtype: str, seed: int) -> Arrays:
        """Draw logits that are nearly certain."""
        x, y = super().hard_inputs(sizes, dtype, seed)
        if x.size >= 4:
            x[1], x[-2] = 40, -40
        return x, y

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the formula as x - x y - log s(x), with log s(x) = min(x, 0) - log(1 +
        exp(-|x|)).
        """
        x, y = inputs
        negative = c.value(x) < 0
        decay = c.store(_decay(c, x))
        below = c.select(lambda array: array * negative, x)
        log_sigmoid = c.store(below - c.store(c.log(decay + 1)))
        linear = c.store(c.store(x) - c.store(x * y))
        return c.store(_scalar(c, c.total(c.store(linear - log_sigmoid)) / sizes["n"]))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """(s(x) - y) G / n."""
        x, y = inputs
        positive = c.value(x) >= 0
        decay = c.store(_decay(c, x))
        above = c.select(lambda array: array * ~positive, decay) + positive
        sigmoid = c.store(above / (decay + 1))
        share = c.store(c.store(upstream / sizes["n"]))
        return (c.store(c.store(sigmoid * share) - c.store(y * share)),)

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return 9 * sizes["n"]


class MeanSquaredError(_Loss):
    """Mean of (a - b)**2 over n elements. FLOPs: 3 per element."""

    name = "mean_squared_error"

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        """Return two vectors of n elements."""
        return {"a": Tensor((sizes["n"],)), "b": Tensor((sizes["n"],))}

    def hard_inputs(self, sizes: Sizes, dtype: str, seed: int) -> Arrays:
        """Return both far from 0, where no sum of squares keeps what they differ by."""
        a, b = super().hard_inputs(sizes, dtype, seed)
        return round_to(a + 8, dtype), round_to(b + 8, dtype)

    def forward(self, c: Calculator, sizes: Sizes, *inputs: Any) -> Any:
        """Return the formula; differences and squares may be stored in the dtype."""
        a, b = inputs
        difference = c.store(a - b)
        return c.store(_scalar(c, c.total(c.store(difference * difference)) / sizes["n"]))

    def backward(self, c: Calculator, sizes: Sizes, upstream: Any, *inputs: Any) -> tuple[Any, ...]:
        """2 (a - b) G / n, and its negative."""
        a, b = inputs
        by_a = c.store(c.store(a - b) * c.store(upstream * 2 / sizes["n"]))
        return by_a, -by_a

    def flops(self, sizes: Sizes) -> int:
        """See the class."""
        return 3 * sizes["n"]


def _labels(sizes: Sizes) -> Tensor:
    return Tensor((sizes["rows"],), below=sizes["columns"], real=False, gradient=False)


def _of_rows(c: Calculator, weights: Any, labels: Any) -> Any:
    return c.select(lambda array: array[labels][:, None], weights)


def _log_softmax(c: Calculator, x: Any) -> Any:
    shifted = x - c.value(x).max(axis=1, keepdims=True)
    return c.store(shifted - c.log(c.total(c.exp(shifted), 1)))


def _decay(c: Calculator, x: Any) -> Any:
    """exp(-|x|)."""
    return c.exp(c.select(lambda array: -abs(array), x))


def _pick(matrix: Any, labels: Any) -> Any:
    import numpy

    return numpy.take_along_axis(matrix, labels[:, None], axis=1)


def _place(column: Any, labels: Any, shape: tuple[int, ...]) -> Any:
    import numpy

    matrix = numpy.zeros(shape, column.dtype, like=column)
    numpy.put_along_axis(matrix, labels[:, None], column, axis=1)
    return matrix


def _scalar(c: Calculator, x: Any) -> Any:
    return c.select(lambda array: array.reshape(()), x)


OPERATORS = {
    operator.name: operator
    for operator in (
        CrossEntropy(),
        SoftmaxCrossEntropy(),
        SigmoidCrossEntropy(),
        MeanSquaredError(),
    )
}
